import { type KafkaClient, loadKafkaClient } from "#kafka/client.ts";
import { KAFKA } from "#runtime/settings/kafka.ts";

const { name, form, default: usual } = KAFKA.settings.client;

/** The client that processes run where nothing else is said; WEIR_KAFKA_CLIENT puts the other one in its place. */
export const kafkaClient: KafkaClient = await loadKafkaClient(form.parse(process.env[name] ?? usual));
