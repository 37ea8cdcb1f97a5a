import { ADMIN } from "./settings/admin.ts";
import { DATABASE } from "./settings/database.ts";
import { HTTP } from "./settings/http.ts";
import { JWT } from "./settings/jwt.ts";
import { KAFKA } from "./settings/kafka.ts";
import { LIMITS } from "./settings/limits.ts";
import { MAINTENANCE } from "./settings/maintenance.ts";
import { PROCESS } from "./settings/process.ts";
import { PRODUCER } from "./settings/producer.ts";
import { PROGRESS } from "./settings/progress.ts";
import { SEARCH } from "./settings/search.ts";
import { TAIL } from "./settings/tail.ts";
import { TOPICS } from "./settings/topics.ts";
import { TRACING } from "./settings/tracing.ts";
import { WORKERS } from "./settings/workers.ts";

/**
 * Every setting there is, in the order in which they are listed. A setting stands in the file of its group, with its
 * type, default and meaning; nothing else is needed to add one but `npm run config -- --markdown`.
 */
export const SETTINGS: {
  readonly process: typeof PROCESS;
  readonly tracing: typeof TRACING;
  readonly http: typeof HTTP;
  readonly jwt: typeof JWT;
  readonly limits: typeof LIMITS;
  readonly kafka: typeof KAFKA;
  readonly topics: typeof TOPICS;
  readonly producer: typeof PRODUCER;
  readonly database: typeof DATABASE;
  readonly progress: typeof PROGRESS;
  readonly search: typeof SEARCH;
  readonly tail: typeof TAIL;
  readonly admin: typeof ADMIN;
  readonly workers: typeof WORKERS;
  readonly maintenance: typeof MAINTENANCE;
} = {
  process: PROCESS,
  tracing: TRACING,
  http: HTTP,
  jwt: JWT,
  limits: LIMITS,
  kafka: KAFKA,
  topics: TOPICS,
  producer: PRODUCER,
  database: DATABASE,
  progress: PROGRESS,
  search: SEARCH,
  tail: TAIL,
  admin: ADMIN,
  workers: WORKERS,
  maintenance: MAINTENANCE,
};
