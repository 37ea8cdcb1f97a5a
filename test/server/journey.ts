import { type MessageInitShape } from "@bufbuild/protobuf";

import { type LogPosition } from "#gen/weir/v1/event_pb.ts";
import {
  type GetEventJourneyRequestSchema,
  type GetEventJourneyResponse,
  type Station,
} from "#gen/weir/v1/search_pb.ts";

import { type Clients } from "./clients.ts";

/** A station in a line: what happened, to which record, and what tells it apart. */
export function lineOf({ position, station }: Station): string {
  const place = position === undefined ? "?" : placeOf(position);
  switch (station.case) {
    case "accepted":
      return `accepted ${place} from ${station.value.principal}`;
    case "stored":
      return `stored ${place}`;
    case "duplicate":
      return `${station.value.differs ? "conflict" : "duplicate"} ${place}`;
    case "deadLettered":
      return `dead-lettered ${place} attempt ${station.value.attempt}`;
    case "replayed": {
      const { attempt, principal, cause } = station.value;
      return `replayed ${place} attempt ${attempt} by ${principal} in ${cause.split("/")[0]}`;
    }
    case "skipped":
      return `skipped ${place} ${station.value.kind}`;
    case undefined:
      return `nothing ${place}`;
  }
}

/** A place in short. */
export function placeOf({ partition, offset }: Pick<LogPosition, "partition" | "offset">): string {
  return `${partition}/${offset}`;
}

/** The journey of an event, and its stations in lines. */
export async function journeyOf(
  { search }: Pick<Clients, "search">,
  request: MessageInitShape<typeof GetEventJourneyRequestSchema>,
): Promise<GetEventJourneyResponse & { readonly lines: readonly string[] }> {
  const journey = await search.getEventJourney(request);
  return { ...journey, lines: journey.stations.map(lineOf) };
}
