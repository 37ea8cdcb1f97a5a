import { z } from "zod";

import { getBody } from "./http-probe.ts";

/** How the roles of the workers are. */
export interface WorkersStatus {
  /** Every role does its work, or waits for a person. */
  readonly isSettled: boolean;
  /** Why roles do not do all of their work, a text for each. */
  readonly faults: readonly string[];
}

const service = z.object({ ready: z.boolean(), failed: z.boolean(), reasons: z.array(z.string()) });

const pageText = z
  .string()
  .transform((text, context): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      context.addIssue("is no JSON");
      return z.NEVER;
    }
  })
  .pipe(z.object({ services: z.record(z.string(), service) }));

/** Asks the workers at this URL; undefined where they do not answer, or somebody else does. */
export async function workersStatus(url: string): Promise<WorkersStatus | undefined> {
  const body = await getBody(`${url}/readyz`);
  if (body === undefined) return undefined;
  const read = pageText.safeParse(body);
  if (!read.success) return undefined;
  const services = Object.entries(read.data.services);
  return {
    isSettled: services.every(([, { ready, failed }]) => ready || failed),
    faults: services.flatMap(([name, { reasons }]) => reasons.map((reason) => `${name}: ${reason}`)),
  };
}
