import { describe, expect, it } from "vitest";

import { chooseKafkaRuntime, javaMajor, type Machine } from "./kafka-runtime.ts";

const nothing: Machine = {
  java: () => undefined,
  hasMaven: () => false,
  hasDocker: () => false,
  hasJars: () => false,
};

describe("what Kafka runs on", () => {
  it.each<[string, Partial<Machine>]>([
    ["with Maven", { java: () => 17, hasMaven: () => true }],
    ["with jars from an earlier time", { java: () => 21, hasJars: () => true }],
    ["even where there is Docker too", { java: () => 17, hasMaven: () => true, hasDocker: () => true }],
  ])("is Java %s", (_, machine) => {
    expect(chooseKafkaRuntime({ ...nothing, ...machine })).toBe("java");
  });

  it.each<[string, Partial<Machine>]>([
    ["there is no Java", {}],
    ["Java is too old", { java: () => 11, hasMaven: () => true, hasJars: () => true }],
    ["there is no Maven and there are no jars", { java: () => 17 }],
  ])("is Docker where %s", (_, machine) => {
    expect(chooseKafkaRuntime({ ...nothing, ...machine, hasDocker: () => true })).toBe("docker");
  });

  it.each<[string, Partial<Machine>, string]>([
    ["nothing", {}, "there is no Java,"],
    ["an old Java", { java: () => 11, hasMaven: () => true }, "there is only Java 11,"],
    ["no Maven", { java: () => 17 }, "there is Java 17 but no Maven (mvn),"],
  ])("is an error of one line where there is %s and no Docker", (_, machine, found) => {
    const choose = (): unknown => chooseKafkaRuntime({ ...nothing, ...machine });
    expect(choose).toThrow(found);
    expect(choose).toThrow(/^[^\n]*WEIR_KAFKA_BROKERS[^\n]*$/);
  });
});

describe("the version of Java", () => {
  it.each([
    ['openjdk version "17.0.15" 2025-04-15', 17],
    ['openjdk version "21" 2023-09-19', 21],
    ['java version "1.8.0_392"', 8],
    ["Unable to locate a Java Runtime.", undefined],
  ])("in %j is %s", (printed, major) => {
    expect(javaMajor(printed)).toBe(major);
  });
});
