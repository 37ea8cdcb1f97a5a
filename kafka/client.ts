import { type Adapter, type AdminSessionOptions } from "./adapter.ts";
import { createAdmin } from "./admin.ts";
import { createConsumer, type ConsumerOptions } from "./consumer.ts";
import { type Admin, type Consumer, type Producer } from "./ports.ts";
import { createProducer, type ProducerOptions } from "./producer.ts";

/** Every client library that Weir can speak to Kafka with, by its name in WEIR_KAFKA_CLIENT. Only the chosen one is loaded. */
const ADAPTERS: Readonly<Record<KafkaClientName, () => Promise<Adapter>>> = {
  kafkajs: async () => (await import("./kafkajs/adapter.ts")).adapter,
  platformatic: async () => (await import("./platformatic/adapter.ts")).adapter,
};

/** The name of a client library. */
export type KafkaClientName = "kafkajs" | "platformatic";

/** What a process does with Kafka, by the client library that it runs. */
export interface KafkaClient {
  createProducer(options: ProducerOptions): Producer;
  createConsumer(options: ConsumerOptions): Consumer;
  createAdmin(options: AdminSessionOptions): Admin;
}

/** Loads a client library. */
export async function loadKafkaClient(name: KafkaClientName): Promise<KafkaClient> {
  const adapter = await ADAPTERS[name]();
  return {
    createProducer: (options) => createProducer(adapter, options),
    createConsumer: (options) => createConsumer(adapter, options),
    createAdmin: (options) => createAdmin(adapter, options),
  };
}
