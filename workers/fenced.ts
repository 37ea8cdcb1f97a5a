import { type Claim } from "#postgres/claims.ts";

/** Another worker has taken the partition over: nothing was written, and under this claim nothing ever will be. */
export class FencedError extends Error {
  override readonly name = "FencedError";

  constructor({ topic, partition, epoch }: Claim) {
    super(
      `Another worker has taken ${topic}/${partition} over (after epoch ${epoch}): this one has written nothing`,
    );
  }
}
