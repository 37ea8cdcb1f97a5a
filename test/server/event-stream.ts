import { type Client } from "@connectrpc/connect";
import { type MessageInitShape } from "@bufbuild/protobuf";

import {
  type IngestService,
  type StreamEventsRequestSchema,
  type StreamEventsResponse,
} from "#gen/weir/v1/ingest_pb.ts";

type Request = MessageInitShape<typeof StreamEventsRequestSchema>;

/** A stream of events as its client sees it. */
export interface EventStream {
  /** How many events may be sent now, by what was read. */
  readonly credit: number;
  /** Sends an event, with credit or without. */
  send(request: Request): void;
  /** Ends the client's side. */
  end(): void;
  /** Ends the call, as a client that gives up. */
  abort(): void;
  /** The next message of the server; undefined where the stream has ended with OK. Rejects where it has ended otherwise. */
  next(): Promise<StreamEventsResponse | undefined>;
  /** The next answers, credit alone left out. */
  answers(count: number): Promise<StreamEventsResponse[]>;
}

/** Opens a stream; nothing is read of it until it is asked for. */
export function openStream({ streamEvents }: Client<typeof IngestService>): EventStream {
  const requests: Request[] = [];
  let ended = false;
  let changed = Promise.withResolvers<void>();
  const change = (): void => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  async function* sent(): AsyncGenerator<Request> {
    for (;;) {
      const request = requests.shift();
      if (request !== undefined) yield request;
      else if (ended) return;
      else await changed.promise;
    }
  }
  const abort = new AbortController();
  const responses = streamEvents(sent(), { signal: abort.signal })[Symbol.asyncIterator]();
  let credit = 0;
  const stream: EventStream = {
    get credit() {
      return credit;
    },
    send(request) {
      credit -= 1;
      requests.push(request);
      change();
    },
    end() {
      ended = true;
      change();
    },
    abort() {
      abort.abort();
    },
    async next() {
      const { done, value } = await responses.next();
      if (done === true) return undefined;
      credit += value.credit;
      return value;
    },
    async answers(count) {
      const answers: StreamEventsResponse[] = [];
      while (answers.length < count) {
        const message = await stream.next();
        if (message === undefined) throw new Error(`The stream ended after ${answers.length} answers.`);
        if (message.sequence > 0n) answers.push(message);
      }
      return answers;
    },
  };
  return stream;
}
