import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, expect, test } from "vitest";

import { type TopicSettings } from "#kafka/topics.ts";
import { pendingMigrations } from "#postgres/migrate.ts";

import { prepare } from "../../workers/prepare.ts";
import { type Broker, brokerConnection, createKeptLog, openBroker } from "../kafka/broker.ts";
import { createProxy, openDatabase } from "../postgres/fixture.ts";
import { createEmptyDatabase } from "../support/database.ts";
import { kafkaClient } from "../support/kafka-client.ts";

let broker: Broker;
beforeAll(async () => {
  broker = await openBroker();
});
afterAll(() => broker[Symbol.asyncDispose]());

function topicSettings(): TopicSettings {
  return {
    replication: undefined,
    events: broker.name("events"),
    eventsPartitions: 2,
    eventsRetentionMs: 86_400_000,
    deadLetters: broker.name("dlq"),
    deadLettersPartitions: 1,
    deadLettersRetentionMs: 86_400_000,
  };
}

test("prepares a new database and new topics, and finds nothing to do the next time", async () => {
  await using database = await createEmptyDatabase();
  const topics = topicSettings();
  await using _topics = broker.owning(topics.events, topics.deadLetters);
  const options = { databaseUrl: database.url, admin: broker.admin, topics, waitMs: 10_000 };
  const log = createKeptLog();
  expect(await prepare({ ...options, log })).toEqual([]);
  const said = log.lines.map(([, message]) => message);
  expect(said).toEqual(
    expect.arrayContaining(["Migration applied", "Partition made", "Topic made", "Database is up to date"]),
  );
  expect(said).toContain("A topic has one copy: a lost disk is a lost log");
  await using db = openDatabase(database.url);
  expect(await pendingMigrations(db)).toEqual([]);
  expect((await broker.admin.describeTopics([topics.events, topics.deadLetters])).size).toBe(2);

  const again = createKeptLog();
  expect(await prepare({ ...options, log: again })).toEqual([]);
  expect(again.lines.map(([, message]) => message)).not.toContain("Topic made");
  expect(again.lines).toContainEqual(["info", "Database is up to date", { applied: 0 }]);
});

test("waits for services that are still starting", async () => {
  await using database = await createEmptyDatabase();
  await using proxy = await createProxy(database.url);
  const topics = topicSettings();
  await using _topics = broker.owning(topics.events, topics.deadLetters);
  await proxy.cut();
  const log = createKeptLog();
  const preparing = prepare({ databaseUrl: proxy.url, admin: broker.admin, topics, waitMs: 20_000, log });
  await expect.poll(() => log.lines.map(([, message]) => message)).toContain("Waiting for PostgreSQL");
  await proxy.restore();
  expect(await preparing).toEqual([]);
});

test("gives up after its time, with a line for each service that is not there", async () => {
  const connection = { ...brokerConnection("127.0.0.1:1"), connectTimeoutMs: 200, requestTimeoutMs: 500 };
  await using admin = kafkaClient.createAdmin({ connection, log: createKeptLog() });
  const databaseUrl = "postgres://weir:weir@127.0.0.1:1/weir";
  const faults = await prepare({
    databaseUrl,
    admin,
    topics: topicSettings(),
    waitMs: 600,
    log: createKeptLog(),
  });
  expect(faults).toEqual([
    expect.stringMatching(/^PostgreSQL was not there within 0\.6 s: .*ECONNREFUSED/),
    expect.stringMatching(/^Kafka was not there within 0\.6 s: .*127\.0\.0\.1:1/),
  ]);
});

test("does not wait for what only a person can cure, and names both at once", async () => {
  await using database = await createEmptyDatabase();
  const topics = topicSettings();
  await broker.topic(5, {}, topics.events);
  await using _letters = broker.owning(topics.deadLetters);
  const missing = new URL(database.url);
  missing.pathname = "/no_such_database";
  const preparing = prepare({
    databaseUrl: missing.href,
    admin: broker.admin,
    topics,
    waitMs: 600_000,
    log: createKeptLog(),
  });
  const faults = await Promise.race([preparing, sleep(20_000, ["it waits"], { ref: false })]);
  expect(faults).toEqual([
    expect.stringContaining('"no_such_database" does not exist'),
    expect.stringContaining(`${topics.events} has 5 partitions and 2 are configured`),
  ]);
});
