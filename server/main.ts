import cluster from "node:cluster";
import { type ConnectRouter } from "@connectrpc/connect";
import { Health } from "#gen/health/v1/health_pb.ts";
import { AccountingService } from "#gen/weir/admin/v1/accounting_pb.ts";
import { AuditService } from "#gen/weir/admin/v1/audit_pb.ts";
import { DeadLetterAdminService } from "#gen/weir/admin/v1/dead_letter_pb.ts";
import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { OverviewService } from "#gen/weir/v1/overview_pb.ts";
import { SearchService } from "#gen/weir/v1/search_pb.ts";
import { TailService } from "#gen/weir/v1/tail_pb.ts";
import { loadKafkaClient } from "#kafka/client.ts";
import { ensureTopics, topicTable } from "#kafka/topics.ts";
import { traceProducer } from "#kafka/traced.ts";
import { createDatabase } from "#postgres/pool.ts";
import { createProgress } from "#postgres/progress.ts";
import { SEARCH_SETTINGS } from "#postgres/search.ts";
import { type ProcessContext, runProcess } from "#runtime/process.ts";
import { type Service } from "#runtime/service.ts";
import { createAccountingService } from "./admin/accounting.ts";
import { createInTurn } from "./admin/admin-turns.ts";
import { createAdmission } from "./admit.ts";
import { auditWrites } from "./admin/audit.ts";
import { createAuditService } from "./admin/audit-service.ts";
import { createAuthorize } from "./auth/auth.ts";
import { createBodyBudget } from "./http/body-budget.ts";
import { createCors } from "./http/cors.ts";
import { createDeadLetterAdmin } from "./admin/dead-letter-admin.ts";
import { createDispatch } from "./http/dispatch.ts";
import { createErrorFunnel } from "./error-funnel.ts";
import { createFleet } from "./fleet.ts";
import { observeServer } from "./gauges.ts";
import { createHealthService } from "./health.ts";
import { createEventRoutes } from "./http-events.ts";
import { createHttpRoutes, type HttpRoute } from "./http/http-routes.ts";
import { createIngestService } from "./ingest.ts";
import { createOverviewService } from "./overview.ts";
import { createReadiness } from "./ready.ts";
import { createStoredWatch } from "./receipts.ts";
import { addReflection } from "./http/reflection.ts";
import { createRpc } from "./http/rpc.ts";
import { createSchemaWatch } from "./schema-watch.ts";
import { createSearchService } from "./search.ts";
import { createTailReader } from "./tail/reader.ts";
import { createTailService } from "./tail.ts";
import { createServing, shuttingDown } from "./http/serving.ts";
import { healthzRoute, metricsRoute, readyzRoute } from "./http/status-routes.ts";
import { createTokenKeys } from "./auth/token-keys.ts";
import { createTopicSetup } from "./topic-setup.ts";
import { createTurns } from "./turns.ts";

const NEEDS = [
  "process",
  "http",
  "jwt",
  "limits",
  "database",
  "search",
  "tail",
  "admin",
  "kafka",
  "topics",
  "producer",
  "progress",
  "workers",
] as const;

/**
 * The composition root of the server. Neither Kafka nor PostgreSQL need be there: the server starts, says what is
 * missing, and recovers by itself.
 */
async function start(context: ProcessContext<(typeof NEEDS)[number]>): Promise<readonly Service[]> {
  const { config, log, telemetry, tracer, resources, stopping } = context;
  const { http, kafka, search } = config;
  if (http.processes > 1 && http.metricsPort !== undefined && cluster.isPrimary) {
    return [
      createFleet({ processes: http.processes, metricsPort: http.metricsPort, log: log.scope("fleet") }),
    ];
  }
  const { host, drainTimeoutMs } = config.process;

  // The boot stops here where the token's key cannot be used.
  const { jwt } = config;
  const keys = createTokenKeys({ source: jwt.key, algorithm: jwt.algorithm, log: log.scope("tokens") });
  const authorize = createAuthorize({ ...jwt, keys });

  const client = await loadKafkaClient(kafka.client);
  const [events, letters] = topicTable(config.topics);
  const admin = resources.use(client.createAdmin({ connection: kafka, log }));
  const topics = createTopicSetup(() => ensureTopics(admin, config.topics), log.scope("topics"));
  const producer = resources.use(
    client.createProducer({ ...config.producer, connection: kafka, topics: [events], log, telemetry }),
  );

  const reading = {
    url: search.databaseUrl ?? config.database.url,
    connectTimeoutMs: config.database.connectTimeoutMs,
    readOnly: true,
    settings: SEARCH_SETTINGS,
    logger: log.scope("postgres"),
  };
  const database = resources.use(
    createDatabase({
      ...reading,
      poolSize: search.poolSize,
      statementTimeoutMs: search.statementTimeoutMs,
      applicationName: "weir server",
    }),
  );

  const exportDatabase = resources.use(
    createDatabase({
      ...reading,
      poolSize: search.exports,
      statementTimeoutMs: search.exportStatementTimeoutMs,
      applicationName: "weir server export",
    }),
  );
  const schema = createSchemaWatch(database);

  // Apart, so that no search keeps receipts waiting: one connection for the checkpoints, one for what was passed.
  const progressDatabase = resources.use(
    createDatabase({
      ...reading,
      poolSize: 2,
      statementTimeoutMs: search.statementTimeoutMs,
      applicationName: "weir server progress",
    }),
  );
  const persisting = { group: config.workers.persistGroup, topic: events.name };
  const progress = createProgress({
    database: progressDatabase,
    url: config.database.url,
    ...persisting,
    pollMs: config.progress.pollMs,
    log: log.scope("progress"),
  });

  const tailDatabase = resources.use(
    createDatabase({
      ...reading,
      // One beside those that catch up: the reader of all.
      poolSize: config.tail.reads + 1,
      statementTimeoutMs: config.tail.statementTimeoutMs,
      applicationName: "weir server tail",
    }),
  );
  const tails = createTailReader({
    database: tailDatabase,
    progress,
    topic: events.name,
    ringBytes: config.tail.ringBytes,
    telemetry,
    log: log.scope("tail"),
  });

  const adminDatabase = resources.use(
    createDatabase({
      url: config.database.url,
      poolSize: config.admin.poolSize,
      statementTimeoutMs: config.admin.statementTimeoutMs,
      connectTimeoutMs: config.database.connectTimeoutMs,
      applicationName: "weir server admin",
      logger: log.scope("postgres"),
    }),
  );

  const readiness = createReadiness({
    dependencies: {
      // Before the topics were looked at, what keeps them from that says more.
      kafka: async () =>
        (topics.looked ? topics.fault : undefined) ??
        producer.fault ??
        (await admin.probe([events.name])) ??
        topics.fault,
      postgresql: () => schema.probe(),
      ...(keys.probe && { issuer: keys.probe }),
    },
    everywhere: keys.probe ? ["issuer"] : [],
    services: {
      [IngestService.typeName]: ["kafka"],
      [SearchService.typeName]: ["postgresql"],
      [TailService.typeName]: ["postgresql"],
      [OverviewService.typeName]: ["postgresql"],
      [AccountingService.typeName]: ["kafka", "postgresql"],
      [AuditService.typeName]: ["postgresql"],
      [DeadLetterAdminService.typeName]: ["kafka", "postgresql"],
    },
    notes: { kafka: () => topics.note },
    stopping,
    log: log.scope("readiness"),
  });

  const admission = createAdmission({
    producer: traceProducer(producer, tracer),
    limits: config.limits,
    topic: events.name,
    partitions: events.partitions,
    maxRecordBytes: events.maxMessageBytes,
    telemetry,
  });
  const turns = createTurns({
    concurrency: search.concurrency,
    queue: search.queue,
    waitMs: search.queueWaitMs,
  });

  // One for each connection; what finds none is refused at once.
  const exportTurns = createTurns({ concurrency: search.exports, queue: 0, waitMs: 0 });

  const adminTurns = createTurns({
    concurrency: config.admin.concurrency,
    queue: config.admin.queue,
    waitMs: config.admin.queueWaitMs,
  });
  const inTurn = createInTurn(adminTurns, schema);
  const deadLetters = createDeadLetterAdmin({
    database: adminDatabase,
    admin,
    producer,
    owner: {
      group: config.workers.persistGroup,
      topic: events.name,
      partitions: events.partitions,
      maxMessageBytes: events.maxMessageBytes,
    },
    retentionMs: events.retentionMs,
    letters,
    scanMs: config.admin.deadLetterScanMs,
    inTurn,
    log: log.scope("dead letters"),
  });

  const funnel = createErrorFunnel(log.scope("request"), http.readLimitBytes);
  const shutdown = new AbortController();
  const streamsEnd = new AbortController();
  stopping.addEventListener("abort", () => streamsEnd.abort(shuttingDown()), { once: true });
  const bodies = createBodyBudget(http.bodyMemoryBytes);
  const shared = { authorize, funnel, bodies, telemetry, tracer, shutdown: shutdown.signal };

  const stored = createStoredWatch({
    database: progressDatabase,
    progress,
    ...persisting,
    capacity: config.progress.waits,
    telemetry,
    stopping: streamsEnd.signal,
  });
  const ingest = createIngestService({
    admission,
    limits: config.limits,
    stored,
    stopping: streamsEnd.signal,
  });
  const searching = createSearchService({
    database,
    exportDatabase,
    schema,
    turns,
    exportTurns,
    facetExtensions: search.facetExtensions,
    telemetry,
    funnel,
    log: {
      admin,
      topic: events.name,
      partitions: events.partitions,
      group: config.workers.persistGroup,
    },
  });
  const rpc = createRpc({
    ...shared,
    routes(plain: ConnectRouter) {
      const router = auditWrites(plain, { database: adminDatabase, log: log.scope("audit") });
      router.service(IngestService, ingest);
      router.service(SearchService, searching);
      router.service(
        TailService,
        createTailService({
          ...config.tail,
          database: tailDatabase,
          schema,
          reader: tails,
          topic: events.name,
          telemetry,
        }),
      );
      router.service(OverviewService, createOverviewService({ database, schema, turns, telemetry }));
      router.service(
        AccountingService,
        createAccountingService({
          database,
          schema,
          admin,
          group: config.workers.persistGroup,
          topic: events.name,
        }),
      );
      router.service(AuditService, createAuditService({ database: adminDatabase, inTurn }));
      router.service(DeadLetterAdminService, deadLetters);
      router.service(Health, createHealthService(readiness));
      addReflection(router);
    },
    readLimitBytes: http.readLimitBytes,
    deadlines: {
      defaultMs: http.requestTimeoutMs,
      maxMs: http.requestTimeoutMaxMs,
      maxStreamMs: http.maxStreamDurationMs,
    },
    maxStreams: http.maxStreams,
    streamsEnd: streamsEnd.signal,
    drains: [IngestService.method.streamEvents],
  });

  const statusRoutes = [healthzRoute, readyzRoute(readiness)];
  const metrics = metricsRoute(telemetry);
  const routesOf = (routes: readonly HttpRoute[]) =>
    createHttpRoutes({ ...shared, routes, timeoutMs: http.requestTimeoutMs });
  const eventRoutes = createEventRoutes({
    admission,
    limits: config.limits,
    maxBodyBytes: http.readLimitBytes,
  });
  const ownRoutes = [...eventRoutes, ...statusRoutes];
  const listener = {
    host,
    maxConnections: http.maxConnections,
    maxHeaderBytes: http.maxHeaderBytes,
    headerTimeoutMs: http.headerTimeoutMs,
    requestTimeoutMs: http.requestTimeoutMaxMs,
    log: log.scope("listener"),
  };
  const serving = { stopDelayMs: http.stopDelayMs, drainTimeoutMs, shutdown, log: log.scope("listener") };

  const main = createServing({
    ...serving,
    name: "port",
    listener: { ...listener, port: http.port, tls: http.tls },
    handler: createDispatch(
      createCors(http.corsOrigins),
      routesOf(http.metricsPort === undefined ? [...ownRoutes, metrics] : ownRoutes),
      rpc,
    ),
  });
  const services: Service[] = [topics, readiness, progress];
  if (http.metricsPort !== undefined) {
    services.push(
      createServing({
        ...serving,
        name: "metrics port",
        listener: { ...listener, port: http.metricsPort, tls: undefined },
        handler: createDispatch(createCors([]), routesOf([...statusRoutes, metrics])),
        stopDelayMs: 0,
      }),
    );
  }
  services.push(main);

  resources.use(
    observeServer(telemetry, {
      connections: () => main.listener?.connections,
      rpc,
      turns,
      stored,
      bodies,
      tails,
      database,
      exportDatabase,
      tailDatabase,
    }),
  );
  return services;
}

await runProcess({ name: "server", needs: NEEDS, start });
