import { get as getHttp } from "node:http";
import { get as getHttps } from "node:https";

const TIMEOUT_MS = 5_000;

/** Whether a GET of this URL is answered with 200 now. A certificate is not verified: who serves there is known. */
export function isServing(url: string): Promise<boolean> {
  const get = url.startsWith("https:") ? getHttps : getHttp;
  return new Promise((resolve) => {
    const request = get(url, { agent: false, rejectUnauthorized: false, timeout: TIMEOUT_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.once("timeout", () => request.destroy());
    request.once("error", () => resolve(false));
    request.once("close", () => resolve(false));
  });
}
