import pg from "pg";

/** What pg's connection can do with a COPY; its types leave it out. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Uint8Array): void;
  endCopyFrom(): void;
}

/** A statement that sends data once PostgreSQL asks for it. pg's own answers every COPY … FROM STDIN with a failure. */
class CopyQuery extends pg.Query {
  readonly #chunk: Uint8Array;

  constructor(text: string, chunk: Uint8Array, callback: (error: Error | null | undefined) => void) {
    super(text, callback);
    this.#chunk = chunk;
  }

  handleCopyInResponse(connection: CopyConnection): void {
    connection.sendCopyFromChunk(this.#chunk);
    connection.endCopyFrom();
  }
}

/** Runs a `COPY … FROM STDIN` with all of its data, in the format that the statement names. */
export function copyInto(client: pg.ClientBase, text: string, data: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    client.query(new CopyQuery(text, data, (error) => (error ? reject(error) : resolve())));
  });
}
