import { countConnections, type Database } from "#postgres/pool.ts";
import { type Observation, type Telemetry } from "#runtime/telemetry.ts";
import { type BodyBudget } from "./http/body-budget.ts";
import { type Listener } from "./http/listener.ts";
import { type Rpc } from "./http/rpc.ts";
import { type TailReader } from "./tail/reader.ts";
import { type Turns } from "./turns.ts";

/** What the gauges of a server look at. */
export interface Observed {
  /** undefined until the port is open. */
  readonly connections: () => Listener["connections"] | undefined;
  readonly rpc: Rpc;
  readonly turns: Turns;
  /** The wait of receipts for the store. */
  readonly stored: { readonly waiting: number };
  readonly bodies: BodyBudget;
  readonly tails: TailReader;
  /** The one for reading, the one for exports, and the one for tails. */
  readonly database: Database;
  readonly exportDatabase: Database;
  readonly tailDatabase: Database;
}

/** Gives the server's gauges their values until it is disposed of. */
export function observeServer(
  telemetry: Telemetry,
  { connections, rpc, turns, stored, bodies, tails, database, exportDatabase, tailDatabase }: Observed,
): Disposable {
  const stack = new DisposableStack();
  stack.use(
    telemetry.observe("weir.connections.active", () => {
      const open = connections();
      return PROTOCOLS.flatMap((protocol): Observation<"weir.connections.active">[] =>
        open === undefined ? [] : [[{ protocol }, open[protocol]]],
      );
    }),
  );
  stack.use(telemetry.observe("weir.streams.active", () => [[{}, rpc.streams]]));
  stack.use(telemetry.observe("weir.request.bodies.size", () => [[{}, bodies.heldBytes]]));
  stack.use(telemetry.observe("weir.search.waiting", () => [[{}, turns.waiting]]));
  stack.use(telemetry.observe("weir.ingest.waiting", () => [[{}, stored.waiting]]));
  stack.use(telemetry.observe("weir.tail.streams", () => [[{}, tails.tails]]));
  stack.use(telemetry.observe("weir.tail.ring.size", () => [[{}, tails.ring.weight]]));
  stack.use(
    telemetry.observe("weir.database.connections", () => [
      ...connectionsOf("read", database),
      ...connectionsOf("export", exportDatabase),
      ...connectionsOf("tail", tailDatabase),
    ]),
  );
  return stack;
}

const PROTOCOLS = ["http/1.1", "h2"] as const;

function connectionsOf(
  pool: "read" | "export" | "tail",
  database: Database,
): readonly Observation<"weir.database.connections">[] {
  const { idle, used, waiting } = countConnections(database);
  return [
    [{ pool, state: "idle" }, idle],
    [{ pool, state: "used" }, used],
    [{ pool, state: "waiting" }, waiting],
  ];
}
