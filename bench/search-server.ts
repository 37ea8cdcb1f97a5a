import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";

import { SearchService, Summary } from "#gen/weir/v1/search_pb.ts";

import { freePort } from "../dev/ports.ts";
import { printRow } from "./report.ts";
import { END } from "./search-events.ts";
import { type Prepared } from "./search-questions.ts";
import { type SearchStore } from "./search-store.ts";
import { percentile } from "./statistics.ts";
import { startServer } from "./weir.ts";

const TIMES = 100;

/** Asks a server process by RPC what was asked of PostgreSQL, so that its own share is seen. */
export async function measureServer(store: SearchStore, prepared: Prepared): Promise<void> {
  // Searches need no Kafka.
  const broker = { address: `127.0.0.1:${await freePort()}`, [Symbol.asyncDispose]: async () => {} };
  await using server = await startServer(
    broker,
    { WEIR_DATABASE_URL: store.url, WEIR_SEARCH_FACET_EXTENSIONS: "tenant,region" },
    "weir.v1.SearchService",
  );
  const client = createClient(
    SearchService,
    createConnectTransport({
      baseUrl: `http://127.0.0.1:${server.port}`,
      httpVersion: "1.1",
      interceptors: [
        (next) => (request) => {
          request.header.set("authorization", `Bearer ${server.token}`);
          return next(request);
        },
      ],
    }),
  );
  for (const [{ what, asks, target }, asked] of prepared) {
    if (asks === "later page" || asks === "summaries" || target === undefined) continue;
    // The server's own `now` is another than that of the events.
    const filters = asked
      .slice(0, TIMES)
      .map(({ text }) => text.replace("now-1d", JSON.stringify(new Date(END - 86_400_000).toISOString())));
    const took: number[] = [];
    for (const filter of [...filters, ...filters]) {
      const began = performance.now();
      await client.searchEvents({ filter, summaries: asks === "all" ? [] : [Summary.NONE] });
      took.push(performance.now() - began);
    }
    const warm = took.slice(filters.length);
    printRow({
      what: `by RPC, of one who asks at a time: ${what}`,
      measured: `p50 ${percentile(warm, 0.5).toFixed(1)} ms, p95 ${percentile(warm, 0.95).toFixed(1)} ms`,
      ratio: `${(percentile(warm, 0.95) / target).toFixed(2)} of the target`,
      target: `p95 < ${target} ms`,
      isMet: percentile(warm, 0.95) < target,
    });
  }
}
