import { afterAll, beforeAll, expect, test } from "vitest";

import { startWeir, type Weir } from "../support/weir.ts";
import { type Case, createCase, EDGES } from "./hostile/cases.ts";
import { type Answer, createSender } from "./hostile/sender.ts";

// A million of them: npm run fuzz. WEIR_FUZZ_SEED has a run again that failed.
const CASES = Number(process.env["WEIR_FUZZ_CASES"] ?? 20_000);
const SEED = Number(process.env["WEIR_FUZZ_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
const IN_FLIGHT = 32;
const MEMORY_LIMIT = 500 * 1024 * 1024;

let weir: Weir;
let token: string;
beforeAll(async () => {
  // What is broken in a stream would else hold it for an hour.
  weir = await startWeir({ env: { WEIR_MAX_STREAM_DURATION: "5s" } });
  token = await weir.token();
});
afterAll(() => weir[Symbol.asyncDispose]());

/** gRPC: unknown, internal, data loss. None may come of what a client sends. */
const GRPC_FAULTS = [2, 13, 15];
/** What asks for something that is not served, or for less time than there was; and bounds. Each says its reason. */
const EXPECTED_5XX: Readonly<Record<number, RegExp>> = {
  501: /"(UNIMPLEMENTED|STAGE_UNSUPPORTED)"/,
  503: /"PRODUCER_UNAVAILABLE"[^]*"QUEUE_FULL"|"STREAM_CAPACITY"/,
  504: /"DEADLINE_EXCEEDED"/,
  505: /HTTP\/2/,
};

/** What is wrong with an answer; undefined where nothing is. */
function faultOf({ isSound }: Case, { status, grpcStatus, text }: Answer): string | undefined {
  if (text.includes('"INTERNAL"')) return "INTERNAL";
  if (grpcStatus !== undefined && GRPC_FAULTS.includes(grpcStatus)) return `grpc-status ${grpcStatus}`;
  if (status >= 500 && EXPECTED_5XX[status]?.test(text) !== true) return `status ${status}`;
  if (isSound && (status !== 200 || (grpcStatus ?? 0) !== 0))
    return `a sound event was refused with ${status}`;
  return undefined;
}

test(`${CASES.toLocaleString("en")} hostile requests: each is answered, and none as a fault of ours`, async () => {
  using sender = createSender(weir.baseUrl);
  const counts: Record<string, number> = {};
  const faults: string[] = [];
  let next = 0;
  const began = performance.now();
  const work = async (): Promise<void> => {
    while (next < CASES && faults.length < 20) {
      const index = next;
      next += 1;
      const request = createCase(SEED, index, token);
      const name = `${request.edge}, case ${index} of seed ${SEED}`;
      try {
        const answer = await sender.send(request);
        const outcome =
          answer.grpcStatus === undefined ? `${answer.status}` : `${answer.status}/${answer.grpcStatus}`;
        counts[outcome] = (counts[outcome] ?? 0) + 1;
        const fault = faultOf(request, answer);
        if (fault !== undefined) faults.push(`${name}: ${fault}: ${answer.text.slice(0, 300)}`);
      } catch (error) {
        faults.push(`${name}: ${String(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, work));
  const seconds = (performance.now() - began) / 1000;
  process.stderr.write(
    `  hostile: seed ${SEED}, ${Math.round(next / seconds)}/s, ${JSON.stringify(counts)}\n`,
  );

  expect(faults).toEqual([]);
  expect(weir.log().filter(({ level }) => level === "error")).toEqual([]);
  const page = await (await fetch(`${weir.baseUrl}/metrics`)).text();
  expect(Number(/^process_memory_usage (\S+)$/m.exec(page)?.[1])).toBeLessThan(MEMORY_LIMIT);
  // Most was refused, and a good part was taken, or the cases are no test.
  expect(counts["200"]).toBeGreaterThan(CASES / 50);
  expect(counts["400"]).toBeGreaterThan(CASES / 10);
  expect(Object.keys(EDGES).length).toBeGreaterThan(10);
}, 3_600_000);
