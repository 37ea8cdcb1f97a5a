import {
  createFileRegistry,
  create,
  type DescMethod,
  type DescService,
  setExtension,
} from "@bufbuild/protobuf";
import {
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
  MethodOptionsSchema,
} from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { Health } from "#gen/health/v1/health_pb.ts";
import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { scope } from "#gen/weir/v1/options_pb.ts";
import { SearchService } from "#gen/weir/v1/search_pb.ts";
import { TailService } from "#gen/weir/v1/tail_pb.ts";
import { AccessError, includesScope, methodAccess, routeAccess, type ScopedRoute } from "./scopes.ts";

/** The methods of a service `test.v1.Odd`, each with the scope that is given for it. */
function methodsOf(scopes: Readonly<Record<string, string | undefined>>): readonly DescMethod[] {
  const method = Object.entries(scopes).map(([name, value]) => {
    const options = create(MethodOptionsSchema);
    if (value !== undefined) setExtension(options, scope, value);
    return { name, inputType: ".test.v1.Empty", outputType: ".test.v1.Empty", options };
  });
  const file = create(FileDescriptorProtoSchema, {
    name: "test/v1/odd.proto",
    package: "test.v1",
    syntax: "proto3",
    messageType: [{ name: "Empty" }],
    service: [{ name: "Odd", method }],
  });
  const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: [file] }));
  return (registry.getService("test.v1.Odd") as DescService).methods;
}

describe("methodAccess", () => {
  it("reads each method's scope from its proto option", () => {
    const services = [IngestService, SearchService, TailService, Health];
    const methods = services.flatMap((service): readonly DescMethod[] => service.methods);
    const access = methodAccess(methods);
    expect(Object.fromEntries([...access].map(([{ name }, needed]) => [name, needed]))).toEqual({
      CreateEvent: "events.write",
      BatchCreateEvents: "events.write",
      StreamEvents: "events.write",
      ValidateEvent: "events.write",
      GetEventJourney: "events.read",
      SearchEvents: "events.read",
      GetEvent: "events.read",
      ExportEvents: "events.read",
      TailEvents: "events.read",
      Check: "open",
      List: "open",
      Watch: "open",
    });
  });

  it("stops the boot and names every method at fault", () => {
    const methods = methodsOf({ Bare: undefined, Good: "events.read", Empty: "", Misspelt: "event.read" });
    expect(() => methodAccess(methods)).toThrow(
      new AccessError([
        "test.v1.Odd.Bare has no scope: give it the option (weir.v1.scope) (test/v1/odd.proto)",
        'test.v1.Odd.Empty has the scope "", which does not exist: the scopes are events.write, events.read, admin.read, admin.write (test/v1/odd.proto)',
        'test.v1.Odd.Misspelt has the scope "event.read", which does not exist: the scopes are events.write, events.read, admin.read, admin.write (test/v1/odd.proto)',
      ]),
    );
  });
});

describe("routeAccess", () => {
  it("knows the open paths and the scopes beside the others", () => {
    const routes: ScopedRoute[] = [
      { method: "GET", path: "/healthz" },
      { method: "POST", path: "/v1/events", scope: "events.write" },
    ];
    expect([...routeAccess(routes).values()]).toEqual(["open", "events.write"]);
  });

  it.each<[ScopedRoute, string]>([
    [{ method: "POST", path: "/v1/events" }, "POST /v1/events has no scope: give it a scope beside its path"],
    [{ method: "GET", path: "/healthz/" }, "GET /healthz/ has no scope"],
    [
      { method: "GET", path: "/debug", scope: "open" },
      'GET /debug has the scope "open", which does not exist',
    ],
    [
      { method: "GET", path: "/readyz", scope: "admin.read" },
      "GET /readyz is open by name and must not have a scope",
    ],
  ])("stops the boot for %j", (route, line) => {
    expect(() => routeAccess([route])).toThrow(AccessError);
    expect(() => routeAccess([route])).toThrow(line);
  });
});

describe("includesScope", () => {
  it("lets admin.write read as well, and nothing else stand for another", () => {
    expect(includesScope(new Set(["admin.write"]), "admin.read")).toBe(true);
    expect(includesScope(new Set(["admin.read"]), "admin.write")).toBe(false);
    expect(includesScope(new Set(["events.write"]), "events.read")).toBe(false);
  });
});
