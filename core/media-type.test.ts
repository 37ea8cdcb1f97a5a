import { expect, test } from "vitest";
import { essenceOf, isJsonMediaType, isMediaType } from "./media-type.ts";

test.each([
  "application/json",
  "text/plain;charset=utf-8",
  "text/plain ; charset=utf-8;\tformat=flowed",
  'multipart/mixed; boundary="a b;c\\"d"',
  "application/vnd.acme.order.v1+json",
  "text/plain;",
  'a/b;c=d;e=""',
])("RFC 2045 § 5.1: %s is a media type", (text) => {
  expect(isMediaType(text)).toBe(true);
});

test.each([
  "",
  "json",
  "/json",
  "text/",
  "text/plain, text/html",
  "text/plain charset=utf-8",
  "text /plain",
  " text/plain",
  "text/plain ",
  "text/plain; ",
  "text/plain;;",
  "text/plain;a",
  "text/plain;a=",
  "text/plain;=b",
  "text/plain;a = b",
  'text/plain;a="b',
  'text/plain;a="b\\"',
  'text/plain;a="b"c',
  'text/plain;a="ä"',
  "text/größe",
  "text/a/b",
])("RFC 2045 § 5.1: %j is none", (text) => {
  expect(isMediaType(text)).toBe(false);
});

test("JSON format § 3.1.1: JSON is */json and */*+json, in any case, whatever the parameters", () => {
  for (const type of ["application/json", "TEXT/JSON;x=1", "application/a+json", "image/x+Json ; q=1"]) {
    expect([type, isJsonMediaType(type)]).toEqual([type, true]);
  }
  for (const type of [
    "application/jsonx",
    "json",
    "+json",
    "application/json5",
    "text/plain;x=/json",
    "application/x-json",
  ]) {
    expect([type, isJsonMediaType(type)]).toEqual([type, false]);
  }
});

test("the essence is in lower case without parameters", () => {
  expect(essenceOf(" Text/HTML ; x=Y")).toBe("text/html");
});

test("a type of a million characters takes linear time and no stack", () => {
  expect(isMediaType(`text/plain; x="${"\\\\".repeat(500_000)}"`)).toBe(true);
  expect(isMediaType(`text/plain${" ".repeat(1_000_000)}`)).toBe(false);
});
