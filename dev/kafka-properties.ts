/** Where a broker of one node listens, and where it keeps its data. */
export interface BrokerPlace {
  /** The address that both listeners bind to. */
  readonly host: string;
  readonly port: number;
  /** What clients are told to connect to, `host:port`. */
  readonly advertised: string;
  readonly controllerPort: number;
  readonly logDirs: string;
}

/**
 * The configuration of a Kafka of one node that is its own controller: one copy of everything, no topic made on first
 * use, and quick to come back.
 */
export function brokerProperties(place: BrokerPlace): Record<string, string> {
  return {
    "process.roles": "broker,controller",
    "node.id": "1",
    listeners: `PLAINTEXT://${place.host}:${place.port},CONTROLLER://127.0.0.1:${place.controllerPort}`,
    "advertised.listeners": `PLAINTEXT://${place.advertised}`,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    // A static quorum keeps the controller's port out of the data, so that another may be chosen later.
    "controller.quorum.voters": `1@127.0.0.1:${place.controllerPort}`,
    "log.dirs": place.logDirs,
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    // After a kill the next start waits until the former session has expired.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
  };
}

/**
 * A file of properties as Java reads it: in ISO-8859-1, whatever the locale, with a backslash to escape (java.util.Properties,
 * `load`), so that every other character is written by its UTF-16 units.
 */
export function propertiesFile(properties: Readonly<Record<string, string>>): string {
  const escaped = (text: string): string =>
    text
      .replaceAll("\\", "\\\\")
      .replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .replace(/^ /, "\\ ");
  return Object.entries(properties)
    .map(([key, value]) => `${key}=${escaped(value)}\n`)
    .join("");
}

/** The same as the environment of the `apache/kafka` image. */
export function imageEnvironment(place: BrokerPlace): Record<string, string> {
  return Object.fromEntries(
    Object.entries(brokerProperties(place)).map(([key, value]) => [
      `KAFKA_${key.toUpperCase().replaceAll(".", "_")}`,
      value,
    ]),
  );
}

/** The image that stands in for the jars where there is Docker and no Java. */
export const KAFKA_IMAGE = "apache/kafka:4.4.0";
