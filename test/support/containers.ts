import { PostgreSqlContainer } from "@testcontainers/postgresql";
import { GenericContainer, Wait } from "testcontainers";

import { imageEnvironment, KAFKA_IMAGE } from "../../dev/kafka-properties.ts";
import { freePort } from "../../dev/ports.ts";

interface Service {
  readonly address: string;
  stop(): Promise<void>;
}

/** The broker that the launcher runs from jars, as the project's own image. */
export async function startKafkaContainer(): Promise<Service> {
  // A broker tells its clients where to connect, so its port outside must be known before it starts.
  const port = await freePort();
  const container = await new GenericContainer(KAFKA_IMAGE)
    .withExposedPorts({ container: 9092, host: port })
    .withEnvironment(
      imageEnvironment({
        host: "0.0.0.0",
        port: 9092,
        advertised: `127.0.0.1:${port}`,
        controllerPort: 9093,
        logDirs: "/tmp/kafka",
      }),
    )
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
