import { createServer } from "node:http";
import { type AddressInfo } from "node:net";

import { fromBinary } from "@bufbuild/protobuf";

import { CloudEventSchema } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";

import { answer } from "./child-task.ts";
import { RECEIPT_JSON } from "./receipt.ts";

// The limit of the HTTP binding: node:http that decodes an event and answers as many bytes as a receipt has. No checks, no
// token, no deadline, no Kafka.

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks);
    const event =
      request.headers["content-type"] === "application/cloudevents+json"
        ? (JSON.parse(body.toString()) as { readonly id: string })
        : fromBinary(CloudEventSchema, body);
    response.writeHead(event.id === "" ? 400 : 200, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(RECEIPT_JSON),
    });
    response.end(RECEIPT_JSON);
  });
});
server.listen(0, "127.0.0.1", () => answer({ port: (server.address() as AddressInfo).port }));
