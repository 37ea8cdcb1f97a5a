import { expect, test } from "vitest";
import { contentModeOf } from "./content-mode.ts";

test.each([
  ["application/cloudevents+json", { mode: "structured", format: "json" }],
  ["application/cloudevents+json; charset=utf-8", { mode: "structured", format: "json" }],
  ["APPLICATION/CloudEvents+JSON ;Charset=UTF-8", { mode: "structured", format: "json" }],
  [" application/cloudevents+protobuf", { mode: "structured", format: "protobuf" }],
  ["application/cloudevents", { mode: "structured", format: "" }],
  ["application/cloudevents+json+x", { mode: "structured", format: "json+x" }],
  ["application/cloudevents-batch+json", { mode: "batch", format: "json" }],
  ["application/cloudevents-batch", { mode: "batch", format: "" }],
  ["application/cloudevents-other+json", { mode: "unknown" }],
  ["application/cloudeventsjson", { mode: "unknown" }],
])("the media type %s decides, whatever the headers", (contentType, mode) => {
  expect(contentModeOf(contentType, true)).toEqual(mode);
  expect(contentModeOf(contentType, false)).toEqual(mode);
});

test.each([
  undefined,
  "",
  "application/json",
  "text/plain; x=application/cloudevents+json",
  "x-application/cloudevents+json",
])("with %j the specversion attribute's header decides", (contentType) => {
  expect(contentModeOf(contentType, true)).toEqual({ mode: "binary" });
  expect(contentModeOf(contentType, false)).toEqual({ mode: "unknown" });
});
