import { findErrorBy, NetworkError } from "@platformatic/kafka";

/** Whether the error, or one that it is made of, is the protocol's error of this name, such as "UNKNOWN_MEMBER_ID". */
export function isProtocolError(error: unknown, name: string): boolean {
  return error instanceof Error && Boolean(findErrorBy(error, "apiId", name));
}

/** Whether the connection failed, before or after the request: no broker has said anything. */
export function isConnectionError(error: unknown): boolean {
  return error instanceof Error && Boolean(findErrorBy(error, "code", NetworkError.code));
}

/** The topic that the brokers do not know, where that was the error: the library has no other sign of it. */
export function unknownTopic(error: unknown): string | undefined {
  return error instanceof Error ? /^Unknown topic (.*)\.$/.exec(error.message)?.[1] : undefined;
}
