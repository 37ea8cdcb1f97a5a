import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { ServerReflection, type ServerReflectionResponse } from "#gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "#gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { Health } from "#gen/health/v1/health_pb.ts";
import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { SearchService } from "#gen/weir/v1/search_pb.ts";
import { addReflection } from "../../server/http/reflection.ts";
import { type RpcServer, startRpcServer } from "../support/rpc-server.ts";

let server: RpcServer;
beforeAll(async () => {
  server = await startRpcServer({
    routes(router) {
      router.service(IngestService, {}).service(SearchService, {}).service(Health, {});
      addReflection(router);
    },
  });
});
afterAll(() => server[Symbol.asyncDispose]());

const VERSIONS = [
  ["v1", ServerReflection],
  ["v1alpha", ServerReflectionV1Alpha],
] as const;

type Version = (typeof VERSIONS)[number][1];
type Question = NonNullable<Parameters<ReturnType<typeof createAsk>>[number]>;

/** Asks the questions on one stream and gives the answers. */
function createAsk(version: Version = ServerReflection) {
  const client = createClient(
    version as typeof ServerReflection,
    createGrpcTransport({ baseUrl: server.url }),
  );
  return async (
    ...questions: { case: string; value: string | { containingType: string; extensionNumber: number } }[]
  ): Promise<ServerReflectionResponse["messageResponse"][]> => {
    const requests = questions.map((messageRequest) => ({ host: "h", messageRequest }));
    const answers: ServerReflectionResponse["messageResponse"][] = [];
    async function* send(): AsyncGenerator<never> {
      for (const request of requests) yield request as never;
    }
    for await (const { messageResponse, validHost, originalRequest } of client.serverReflectionInfo(send())) {
      expect([validHost, originalRequest?.messageRequest.case]).toEqual([
        "h",
        questions[answers.length]?.case,
      ]);
      answers.push(messageResponse);
    }
    return answers;
  };
}

/** The names of the files of an answer, in its order. */
function filesOf(answer: ServerReflectionResponse["messageResponse"] | undefined): string[] {
  if (answer?.case !== "fileDescriptorResponse") throw new Error(`No files but ${JSON.stringify(answer)}`);
  return answer.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes).name);
}

const bySymbol = (value: string): Question => ({ case: "fileContainingSymbol", value });

describe.each(VERSIONS)("reflection %s", (_, version) => {
  it("lists the services that are served, itself among them", async () => {
    const [answer] = await createAsk(version)({ case: "listServices", value: "" });
    expect(answer).toMatchObject({
      case: "listServicesResponse",
      value: {
        service: [
          { name: "grpc.health.v1.Health" },
          { name: "grpc.reflection.v1.ServerReflection" },
          { name: "grpc.reflection.v1alpha.ServerReflection" },
          { name: "weir.v1.IngestService" },
          { name: "weir.v1.SearchService" },
        ],
      },
    });
  });

  it("gives a file with everything that it imports", async () => {
    const [answer] = await createAsk(version)({ case: "fileByFilename", value: "weir/v1/ingest.proto" });
    const files = filesOf(answer);
    expect(files[0]).toBe("weir/v1/ingest.proto");
    expect(files.slice(1).toSorted()).toEqual([
      "google/protobuf/any.proto",
      "google/protobuf/descriptor.proto",
      "google/protobuf/timestamp.proto",
      "google/rpc/status.proto",
      "io/cloudevents/v1/cloudevents.proto",
      "weir/v1/event.proto",
      "weir/v1/options.proto",
    ]);
  });

  it.each([
    ["weir.v1.IngestService", "weir/v1/ingest.proto"],
    ["weir.v1.IngestService.CreateEvent", "weir/v1/ingest.proto"],
    ["weir.v1.CreateEventRequest", "weir/v1/ingest.proto"],
    ["weir.v1.CreateEventRequest.wait_for", "weir/v1/ingest.proto"],
    ["weir.v1.Severity", "weir/v1/event.proto"],
    ["weir.v1.SEVERITY_WARN", "weir/v1/event.proto"],
    ["weir.v1.scope", "weir/v1/options.proto"],
    ["io.cloudevents.v1.CloudEvent.CloudEventAttributeValue", "io/cloudevents/v1/cloudevents.proto"],
    ["io.cloudevents.v1.CloudEvent.data", "io/cloudevents/v1/cloudevents.proto"],
    ["grpc.health.v1.HealthCheckResponse.ServingStatus", "health/v1/health.proto"],
    ["grpc.health.v1.HealthCheckResponse.SERVING", "health/v1/health.proto"],
    ["google.rpc.ErrorInfo", "google/rpc/error_details.proto"],
    ["google.protobuf.MethodOptions", "google/protobuf/descriptor.proto"],
  ])("finds the file of %s", async (symbol, file) => {
    expect(filesOf((await createAsk(version)(bySymbol(symbol)))[0])[0]).toBe(file);
  });

  it("knows extensions by type and number", async () => {
    const type = "google.protobuf.MethodOptions";
    const [file, numbers, none] = await createAsk(version)(
      { case: "fileContainingExtension", value: { containingType: type, extensionNumber: 50_801 } },
      { case: "allExtensionNumbersOfType", value: type },
      { case: "allExtensionNumbersOfType", value: "weir.v1.Receipt" },
    );
    expect(filesOf(file)[0]).toBe("weir/v1/options.proto");
    expect(numbers).toMatchObject({ value: { baseTypeName: type, extensionNumber: [50_801] } });
    expect(none).toMatchObject({ value: { baseTypeName: "weir.v1.Receipt", extensionNumber: [] } });
  });

  it("says for each question that it does not know, and goes on", async () => {
    const answers = await createAsk(version)(
      bySymbol("weir.v1.Nothing"),
      bySymbol("weir.v1"),
      bySymbol("weir.v1.IngestService.Nothing"),
      { case: "fileByFilename", value: "../package.json" },
      { case: "fileContainingExtension", value: { containingType: "weir.v1.Receipt", extensionNumber: 1 } },
      { case: "allExtensionNumbersOfType", value: "weir.v1.Nothing" },
      bySymbol("weir.v1.Receipt"),
    );
    const codes = answers.map((answer) =>
      answer.case === "errorResponse" ? answer.value.errorCode : "found",
    );
    expect(codes).toEqual([5, 5, 5, 5, 5, 5, "found"]);
    expect(answers[0]).toMatchObject({ value: { errorMessage: "There is no symbol weir.v1.Nothing." } });
  });
});

describe("a reflection stream", () => {
  it("sends each file once", async () => {
    const answers = await createAsk()(
      bySymbol("weir.v1.IngestService"),
      bySymbol("weir.v1.SearchService"),
      bySymbol("weir.v1.SearchService"),
    );
    const [first, second, third] = answers.map(filesOf);
    expect(first).toContain("weir/v1/event.proto");
    expect(second).toEqual(["weir/v1/search.proto", "google/protobuf/duration.proto"]);
    expect(third).toEqual(["weir/v1/search.proto"]);
  });

  it("answers a thousand questions and no more", async () => {
    const questions = Array.from({ length: 1_001 }, () => bySymbol("weir.v1.Nothing"));
    expect(await createAsk()(...questions.slice(1))).toHaveLength(1_000);
    const error = await createAsk()(...questions).catch((reason: unknown) => ConnectError.from(reason));
    expect(error).toMatchObject({ code: Code.ResourceExhausted });
    expect((error as ConnectError).findDetails(ErrorInfoSchema)[0]).toMatchObject({
      reason: "STREAM_CAPACITY",
    });
  });
});
