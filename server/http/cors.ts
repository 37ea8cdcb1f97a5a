import { cors as connectCors } from "@connectrpc/connect";
import cors from "cors";
import { type ServerRequest, type ServerResponse } from "./listener.ts";

/** Answers a preflight, or adds what lets a browser read the answer and calls `next`. */
export type Cors = (request: ServerRequest, response: ServerResponse, next: () => void) => void;

const MAX_AGE_S = 7_200;

/** CORS for Connect-Web, gRPC-Web and the plain HTTP routes alike. `*` is any origin; no origins: no CORS at all. */
export function createCors(origins: readonly string[]): Cors {
  if (origins.length === 0) return (_request, _response, next) => next();
  const handler = cors<ServerRequest>({
    origin: origins.includes("*") ? "*" : [...origins],
    methods: [...connectCors.allowedMethods],
    // Headers are allowed as asked for: the attributes of a binary-mode event are headers of any name (ce-*).
    exposedHeaders: [...connectCors.exposedHeaders, "Retry-After", "WWW-Authenticate"],
    maxAge: MAX_AGE_S,
  });
  return (request, response, next) => handler(request, response, next);
}
