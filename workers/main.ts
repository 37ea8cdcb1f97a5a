import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

import { type KafkaClient, loadKafkaClient } from "#kafka/client.ts";
import { createDeadLetters } from "#kafka/dead-letters.ts";
import { type Admin, type Producer } from "#kafka/ports.ts";
import { topicTable } from "#kafka/topics.ts";
import { traceHandler, traceProducer } from "#kafka/traced.ts";
import { countConnections, createDatabase, type Database, probe } from "#postgres/pool.ts";
import { type ProcessContext, runProcess } from "#runtime/process.ts";
import { type Service } from "#runtime/service.ts";

import { createIndexTerms } from "./index-terms.ts";
import { createMaintain } from "./maintain.ts";
import { createPersistRole } from "./persist-role.ts";
import { createPersist } from "./persist.ts";
import { createReconcile } from "./reconcile.ts";
import { createRedriveRole } from "./redrive.ts";
import { type Role } from "./role.ts";
import { createSchemaGate } from "./schema-gate.ts";
import { createStatusPage } from "./status-page.ts";

const NEEDS = ["process", "database", "kafka", "topics", "producer", "workers", "maintenance"] as const;

type Context = ProcessContext<(typeof NEEDS)[number]>;

/** Who takes partitions and redrives over, for people to read. */
const OWNER = `${hostname()}/${process.pid}/${randomUUID().slice(0, 8)}`;

/** How long making one index may take, which reads all events of a month. */
const INDEXING_TIMEOUT_MS = 3_600_000;

/** What the roles share. */
interface Shared {
  readonly db: Database;
  readonly client: KafkaClient;
  readonly admin: Admin;
  /** One producer for all roles that publish, made for the first. */
  readonly producer: () => Producer;
}

/** Every role by its name in WEIR_WORKER_ROLES. */
const ROLES: Readonly<
  Record<Context["config"]["workers"]["roles"][number], (context: Context, shared: Shared) => Role>
> = {
  persist({ config, log, telemetry, tracer }, { db, client, admin, producer }) {
    const { kafka: connection, workers } = config;
    const [events, deadLetters] = topicTable(config.topics);
    const group = workers.persistGroup;
    const persist = createPersist({
      db,
      setAside: createDeadLetters({ producer: traceProducer(producer(), tracer), topic: deadLetters, group }),
      group,
      owner: OWNER,
      telemetry,
      log: log.scope("persist"),
    });
    const consumer = client.createConsumer({
      connection,
      group,
      topic: events,
      handler: traceHandler(persist, group, tracer),
      batchRecords: workers.persistBatchRecords,
      batchWaitMs: workers.persistBatchWaitMs,
      drainMs: config.process.drainTimeoutMs,
      stuckMs: workers.consumerStuckMs,
      log,
    });
    return createPersistRole({
      consumer,
      persist,
      group,
      topic: events.name,
      admin,
      telemetry,
      log: log.scope("persist"),
    });
  },
  index: ({ log, telemetry }, { db }) => createIndexTerms({ db, telemetry, log: log.scope("index") }),
  redrive({ config, log, telemetry }, { db, admin, producer }) {
    const [events, letters] = topicTable(config.topics);
    return createRedriveRole({
      db,
      admin,
      producer: producer(),
      letters,
      owner: {
        group: config.workers.persistGroup,
        topic: events.name,
        partitions: events.partitions,
        maxMessageBytes: events.maxMessageBytes,
      },
      retentionMs: events.retentionMs,
      name: OWNER,
      telemetry,
      log: log.scope("redrive"),
    });
  },
  maintain({ config, log: parent, telemetry, resources }, { db, admin }) {
    const { retention: age, retentionDrop: drop, numberPaths: paths } = config.maintenance;
    const [events, letters] = topicTable(config.topics);
    const log = parent.scope("maintain");
    const indexing = resources.use(
      createDatabase({
        ...config.database,
        poolSize: 1,
        statementTimeoutMs: INDEXING_TIMEOUT_MS,
        applicationName: "weir workers, indexes",
        logger: log,
      }),
    );
    return createMaintain({
      db,
      telemetry,
      log,
      numbers: { db: indexing, paths },
      retention: age && { age, drop, logMs: events.retentionMs },
      reconcile: createReconcile({
        db,
        admin,
        letters,
        owner: { group: config.workers.persistGroup, topic: events.name, partitions: events.partitions },
        telemetry,
        log,
      }),
    });
  },
};

/**
 * The composition root of the workers. Neither Kafka nor PostgreSQL need be there: the process starts, says what is
 * missing, and goes on by itself. Several may run side by side; they share the partitions of the log.
 */
async function start(context: Context): Promise<readonly Service[]> {
  const { config, log, telemetry, tracer, resources, stopping } = context;
  const { database, workers } = config;
  const db = resources.use(
    createDatabase({ ...database, applicationName: "weir workers", logger: log.scope("postgres"), tracer }),
  );
  const client = await loadKafkaClient(config.kafka.client);
  const admin = resources.use(client.createAdmin({ connection: config.kafka, log }));
  resources.use(
    telemetry.observe("weir.database.connections", () => {
      const { idle, used, waiting } = countConnections(db);
      return [
        [{ pool: "write", state: "idle" }, idle],
        [{ pool: "write", state: "used" }, used],
        [{ pool: "write", state: "waiting" }, waiting],
      ];
    }),
  );

  let made: Producer | undefined;
  const producer = (): Producer =>
    (made ??= resources.use(
      client.createProducer({
        ...config.producer,
        connection: config.kafka,
        topics: topicTable(config.topics),
        log,
        telemetry,
      }),
    ));
  const roles = workers.roles.map((name) => ROLES[name](context, { db, client, admin, producer }));
  const schema = createSchemaGate(db, log.scope("schema"));
  const services: Service[] = [schema, ...roles];
  if (workers.port === undefined) return services;
  const page = createStatusPage({
    host: config.process.host,
    port: workers.port,
    roles,
    dependencies: {
      kafka: () => admin.probe(topicTable(config.topics).map(({ name }) => name)),
      postgresql: () => probe(db),
    },
    notes: () => (schema.ahead === undefined ? [] : [schema.ahead]),
    telemetry,
    stopping,
    log: log.scope("status"),
  });
  return [page, ...services];
}

await runProcess({ name: "workers", needs: NEEDS, start });
