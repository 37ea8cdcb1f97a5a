import { PostgreSqlContainer } from "@testcontainers/postgresql";
import { GenericContainer, Wait } from "testcontainers";

import { freePort } from "../../dev/ports.ts";

interface Service {
  readonly address: string;
  stop(): Promise<void>;
}

/** The broker that the launcher runs from jars, as the project's own image. */
export async function startKafkaContainer(): Promise<Service> {
  // A broker tells its clients where to connect, so its port outside must be known before it starts.
  const port = await freePort();
  const container = await new GenericContainer("apache/kafka:4.4.0")
    .withExposedPorts({ container: 9092, host: port })
    .withEnvironment({
      KAFKA_NODE_ID: "1",
      KAFKA_PROCESS_ROLES: "broker,controller",
      KAFKA_LISTENERS: "PLAINTEXT://:9092,CONTROLLER://:9093",
      KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://127.0.0.1:${port}`,
      KAFKA_CONTROLLER_LISTENER_NAMES: "CONTROLLER",
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
      KAFKA_INTER_BROKER_LISTENER_NAME: "PLAINTEXT",
      KAFKA_CONTROLLER_QUORUM_VOTERS: "1@localhost:9093",
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: "1",
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: "1",
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: "1",
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: "0",
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: "false",
    })
    .withWaitStrategy(Wait.forLogMessage(/Kafka Server started/))
    .start();
  return { address: `127.0.0.1:${port}`, stop: async () => void (await container.stop()) };
}

/** PostgreSQL 18 as the official image. */
export async function startPostgresContainer(): Promise<Service> {
  const container = await new PostgreSqlContainer("postgres:18")
    .withDatabase("postgres")
    .withUsername("weir")
    .start();
  return { address: container.getConnectionUri(), stop: async () => void (await container.stop()) };
}
