import { setTimeout as sleep } from "node:timers/promises";

import { createWeirClient } from "../sdk/index.ts";
import { answer, order } from "./child-task.ts";
import { sampleEvents } from "./requests.ts";

// The SDK's publisher alone in a process, as a customer has it: as many events as its buffer lets in, each to its receipt.

/** Where to publish, and for how long. */
export interface PublishOrder {
  readonly port: number;
  readonly token: string;
  readonly warmupSeconds: number;
  readonly seconds: number;
}

const { port, token, warmupSeconds, seconds } = await order<PublishOrder>();
const publisher = createWeirClient({ baseUrl: `http://127.0.0.1:${port}`, token }).publisher();
const events = sampleEvents(1_000);
let receipts = 0;
let isOver = false;

async function publishAll(): Promise<void> {
  for (let index = 0; !isOver; index++) {
    await publisher.ready();
    publisher.publish(events[index % events.length]!).then(
      () => (receipts += 1),
      (error: unknown) => {
        throw error;
      },
    );
  }
}

const publishing = publishAll();
await sleep(warmupSeconds * 1_000);
answer({});
const [began, before] = [performance.now(), receipts];
await sleep(seconds * 1_000);
answer({ perSecond: ((receipts - before) * 1_000) / (performance.now() - began) });
isOver = true;
await publishing;
await publisher.close();
process.exit(0);
