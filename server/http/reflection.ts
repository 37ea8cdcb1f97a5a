import {
  type DescEnum,
  type DescFile,
  type DescMessage,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, type ConnectRouter, type ServiceImpl } from "@connectrpc/connect";
import { file_google_rpc_error_details } from "#gen/google/rpc/error_details_pb.ts";
import {
  ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponseSchema,
} from "#gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "#gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { toConnectError } from "../errors.ts";

type Answer = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>["messageResponse"]>;
type Question = ServerReflectionRequest["messageRequest"];

/** Far above what a client asks that walks every file of the contract. */
const MAX_QUESTIONS = 1_000;

/**
 * Adds server reflection, v1 and v1alpha, for every service that the router has by now, and for itself. The details of
 * errors can be looked up as well. At most 1,000 questions a stream.
 */
export function addReflection(router: ConnectRouter): void {
  const services = new Set(router.handlers.map(({ service }) => service));
  services.add(ServerReflection).add(ServerReflectionV1Alpha);
  const files = [...services].map(({ file }) => file);
  const answerTo = createAnswers(
    [...files, file_google_rpc_error_details],
    [...services].map(({ typeName }) => typeName).toSorted(),
  );
  const serverReflectionInfo: Info = async function* (requests) {
    const sent = new Set<DescFile>();
    let asked = 0;
    for await (const request of requests) {
      asked += 1;
      if (asked > MAX_QUESTIONS) throw tooManyQuestions();
      const messageResponse = answerTo(request.messageRequest, sent);
      yield { validHost: request.host, originalRequest: request, messageResponse };
    }
  };
  router.service(ServerReflection, { serverReflectionInfo });
  // The messages of v1alpha are those of v1 but for their package.
  router.service(ServerReflectionV1Alpha, {
    serverReflectionInfo: serverReflectionInfo as unknown as InfoV1Alpha,
  });
}

type Info = ServiceImpl<typeof ServerReflection>["serverReflectionInfo"];
type InfoV1Alpha = ServiceImpl<typeof ServerReflectionV1Alpha>["serverReflectionInfo"];

/** Answers the protocol's five questions. `sent` are the files that the stream has already; they are not sent again. */
function createAnswers(
  roots: readonly DescFile[],
  services: readonly string[],
): (question: Question, sent: Set<DescFile>) => Answer {
  const files = new Map(closureOf(roots).map((file) => [file.proto.name, file]));
  const symbols = new Map([...files.values()].flatMap((file) => symbolsOf(file).map((name) => [name, file])));
  const extensions = Map.groupBy(extensionsOf(files.values()), ({ extendee }) => extendee);

  return (question, sent) => {
    switch (question.case) {
      case "listServices":
        return { case: "listServicesResponse", value: { service: services.map((name) => ({ name })) } };
      case "fileByFilename":
        return filesAnswer(files.get(question.value), `file ${question.value}`, sent);
      case "fileContainingSymbol":
        return filesAnswer(symbols.get(question.value), `symbol ${question.value}`, sent);
      case "fileContainingExtension": {
        const { containingType, extensionNumber } = question.value;
        const found = extensions.get(containingType)?.find(({ number }) => number === extensionNumber);
        return filesAnswer(found?.file, `extension ${String(extensionNumber)} of ${containingType}`, sent);
      }
      case "allExtensionNumbersOfType": {
        if (!symbols.has(question.value)) return notFound(`type ${question.value}`);
        const extensionNumber = (extensions.get(question.value) ?? []).map(({ number }) => number);
        return {
          case: "allExtensionNumbersResponse",
          value: { baseTypeName: question.value, extensionNumber },
        };
      }
      default:
        return errorAnswer(Code.InvalidArgument, "The request asks nothing.");
    }
  };
}

function filesAnswer(file: DescFile | undefined, what: string, sent: Set<DescFile>): Answer {
  if (file === undefined) return notFound(what);
  const fresh = closureOf([file]).filter((each) => each === file || !sent.has(each));
  for (const each of fresh) sent.add(each);
  const fileDescriptorProto = fresh.map((each) => toBinary(FileDescriptorProtoSchema, each.proto));
  return { case: "fileDescriptorResponse", value: { fileDescriptorProto } };
}

function notFound(what: string): Answer {
  return errorAnswer(Code.NotFound, `There is no ${what}.`);
}

function errorAnswer(errorCode: Code, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } };
}

/** The files with everything that they import, each once, the first ones first. */
function closureOf(files: readonly DescFile[]): DescFile[] {
  const found = new Set<DescFile>();
  const add = (file: DescFile): void => {
    if (found.has(file)) return;
    found.add(file);
    file.dependencies.forEach(add);
  };
  files.forEach(add);
  return [...found];
}

/** The full name of everything that a file declares: types, fields, oneofs, enum values, extensions, services, methods. */
function symbolsOf(file: DescFile): string[] {
  return [
    ...file.messages.flatMap(symbolsOfMessage),
    ...file.enums.flatMap(symbolsOfEnum),
    ...file.extensions.map(({ typeName }) => typeName),
    ...file.services.flatMap(({ typeName, methods }) => [
      typeName,
      ...methods.map(({ name }) => `${typeName}.${name}`),
    ]),
  ];
}

function symbolsOfMessage(message: DescMessage): string[] {
  const { typeName, fields, oneofs, nestedMessages, nestedEnums, nestedExtensions } = message;
  return [
    typeName,
    ...[...fields, ...oneofs].map(({ name }) => `${typeName}.${name}`),
    ...nestedMessages.flatMap(symbolsOfMessage),
    ...nestedEnums.flatMap(symbolsOfEnum),
    ...nestedExtensions.map((extension) => extension.typeName),
  ];
}

/** An enum's values are named as its siblings are, not beneath it. */
function symbolsOfEnum({ typeName, values }: DescEnum): string[] {
  const scope = typeName.slice(0, typeName.lastIndexOf(".") + 1);
  return [typeName, ...values.map(({ name }) => scope + name)];
}

function* extensionsOf(
  files: Iterable<DescFile>,
): Generator<{ extendee: string; number: number; file: DescFile }> {
  for (const file of files) {
    const nested = (message: DescMessage): DescMessage["nestedExtensions"] => [
      ...message.nestedExtensions,
      ...message.nestedMessages.flatMap(nested),
    ];
    for (const extension of [...file.extensions, ...file.messages.flatMap(nested)]) {
      yield { extendee: extension.extendee.typeName, number: extension.number, file };
    }
  }
}

function tooManyQuestions(): Error {
  return toConnectError({
    code: Code.ResourceExhausted,
    reason: "STREAM_CAPACITY",
    message: `A reflection stream answers ${String(MAX_QUESTIONS)} questions at most: open another.`,
    metadata: { limit: String(MAX_QUESTIONS), unit: "questions" },
  });
}
