import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type ConnectionOptions } from "#kafka/connection.ts";

import { freePort } from "../../dev/ports.ts";
import { createCertificate } from "../support/certificate.ts";
import { type Broker, brokerConnection, CLIENTS, openBroker, textRecord } from "./broker.ts";
import { consume } from "./consuming.ts";
import { type OwnBroker, startOwnBroker } from "./own-broker.ts";

const { certificate, key } = createCertificate();
const jaas = "org.apache.kafka.common.security";
/** Given back last in, first out, whatever else fails. */
const resources = new AsyncDisposableStack();
let own: OwnBroker;
let connection: ConnectionOptions;
beforeAll(async () => {
  const port = await freePort();
  const escape = (pem: string): string => pem.replaceAll("\n", "\\n");
  const started = await startOwnBroker({
    properties: (plain) => ({
      listeners: `${plain["listeners"]},SASL_SSL://127.0.0.1:${port}`,
      "advertised.listeners": `${plain["advertised.listeners"]},SASL_SSL://127.0.0.1:${port}`,
      "listener.security.protocol.map": `${plain["listener.security.protocol.map"]},SASL_SSL:SASL_SSL`,
      "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
      "listener.name.sasl_ssl.plain.sasl.jaas.config": `${jaas}.plain.PlainLoginModule required user_weir="secret";`,
      "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": `${jaas}.scram.ScramLoginModule required;`,
      "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": `${jaas}.scram.ScramLoginModule required;`,
      "ssl.keystore.type": "PEM",
      "ssl.keystore.certificate.chain": escape(certificate),
      "ssl.keystore.key": escape(key),
    }),
    format: ["SCRAM-SHA-256", "SCRAM-SHA-512"].flatMap((name) => [
      "--add-scram",
      `${name}=[name=weir,password=secret]`,
    ]),
  });
  own = resources.use(started);
  connection = {
    ...brokerConnection(`127.0.0.1:${port}`),
    tls: { ca: certificate },
    sasl: { mechanism: "scram-sha-512", username: "weir", password: "secret" },
  };
});
afterAll(() => resources.disposeAsync());

describe.each(CLIENTS)("%s", (name) => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await openBroker(brokerConnection(own.address), name);
  });
  afterAll(() => broker[Symbol.asyncDispose]());

  describe("a broker with TLS and a login", () => {
    test("is published to and consumed from", async () => {
      const topic = await broker.topic(1);
      const { log, telemetry } = broker;
      const topics = [{ name: topic, maxMessageBytes: 1_048_576 }];
      await using producer = broker.client.createProducer({ connection, topics, log, telemetry });
      expect(await producer.publish(textRecord(topic, 0, "safe"))).toMatchObject({ outcome: "acknowledged" });
      await using consuming = consume(broker, topic, {}, { connection });
      await expect.poll(() => consuming.values(), { timeout: 20_000 }).toEqual(["safe"]);
    });

    test.for(["plain", "scram-sha-256", "scram-sha-512"] as const)(
      "takes a login by %s, and no wrong one",
      async (mechanism) => {
        const { log } = broker;
        const login = (password: string): ConnectionOptions => ({
          ...connection,
          sasl: { mechanism, username: "weir", password },
        });
        await using admin = broker.client.createAdmin({ connection: login("secret"), log });
        expect(await admin.brokerCount()).toBe(1);
        await using wrong = broker.client.createAdmin({ connection: login("guess"), log });
        await expect(wrong.brokerCount()).rejects.toThrow(/authentication failed/i);
      },
    );

    test("is refused where its certificate is not known, and the producer says why", async () => {
      const { log, telemetry } = broker;
      const topics = [{ name: "anything", maxMessageBytes: 1_048_576 }];
      for (const tls of [{ ca: undefined }, { ca: createCertificate().certificate }]) {
        await using producer = broker.client.createProducer({
          connection: { ...connection, tls },
          topics,
          log,
          telemetry,
        });
        await expect.poll(() => producer.fault, { timeout: 20_000 }).toMatch(/self-signed certificate/);
      }
    });
  });
});
