import { get as getHttp, type IncomingMessage } from "node:http";
import { get as getHttps } from "node:https";
import { text } from "node:stream/consumers";

const TIMEOUT_MS = 5_000;

/** Whether a GET of this URL is answered with 200 now. A certificate is not verified: who serves there is known. */
export async function isServing(url: string): Promise<boolean> {
  return (await ask(url, async (response) => response.resume().statusCode === 200)) ?? false;
}

/** What a GET of this URL is answered with, whatever its status; undefined where there is no answer. */
export function getBody(url: string): Promise<string | undefined> {
  return ask(url, text);
}

function ask<T>(url: string, read: (response: IncomingMessage) => Promise<T>): Promise<T | undefined> {
  const get = url.startsWith("https:") ? getHttps : getHttp;
  return new Promise((resolve) => {
    const end = (): void => resolve(undefined);
    const request = get(url, { agent: false, rejectUnauthorized: false, timeout: TIMEOUT_MS }, (response) => {
      read(response).then(resolve, end);
    });
    request.once("timeout", () => request.destroy());
    request.once("error", end);
    // Before the answer came, or in the midst of it; after it this does nothing.
    request.once("close", () => setImmediate(end));
  });
}
