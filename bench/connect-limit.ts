import { createServer } from "node:http";
import { type AddressInfo } from "node:net";

import { connectNodeAdapter } from "@connectrpc/connect-node";

import { IngestService } from "#gen/weir/v1/ingest_pb.ts";

import { answer } from "./child-task.ts";
import { RECEIPT } from "./receipt.ts";

// The limit of a unary call: connect-node, whose handler answers the same receipt to everybody. No checks, no token, no
// deadline, no Kafka.

const server = createServer(
  connectNodeAdapter({
    routes: (router) => router.service(IngestService, { createEvent: () => ({ receipt: RECEIPT }) }),
  }),
);
server.listen(0, "127.0.0.1", () => answer({ port: (server.address() as AddressInfo).port }));
