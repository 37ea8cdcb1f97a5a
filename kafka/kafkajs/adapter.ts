import { type Adapter } from "../adapter.ts";
import { openAdminSession } from "./admin-session.ts";
import { openMember } from "./group-member.ts";
import { openProduceSession } from "./produce-session.ts";

/** kafkajs 2.2.4, see docs/decisions/kafka-client.md. */
export const adapter: Adapter = { openProduceSession, openMember, openAdminSession };
