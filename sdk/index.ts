export { formatEventName } from "../core/event-name.ts";
export { type Reason } from "../core/reason.ts";
export { createWeirClient, type EventQuery, type WeirClient, type WeirClientOptions } from "./client.ts";
export { attributeOf, cloudEvent, type CloudEventInit, dataOf, type ExtensionValue } from "./cloud-event.ts";
export { type Violation, type WeirError, weirErrorOf } from "./error.ts";
export { formatCloudEvent, type ParsedEvent, parseCloudEvent } from "./json-event.ts";
export { type CloudEvent } from "./gen/io/cloudevents/v1/cloudevents_pb.ts";
export { type Event, type LogPosition, type Receipt, Severity, Stage } from "./gen/weir/v1/event_pb.ts";
export { PublishError, type PublishReason } from "./publish-error.ts";
export { type Publisher, type PublisherOptions } from "./publisher.ts";
export { IngestService } from "./gen/weir/v1/ingest_pb.ts";
export {
  type Facet,
  type GetEventJourneyResponse,
  type Histogram,
  type InFlight,
  type MissingSummary,
  SearchService,
  type Station,
  Summary,
  type Total,
} from "./gen/weir/v1/search_pb.ts";
