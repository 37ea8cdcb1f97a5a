import { essenceOf } from "./media-type.ts";

/**
 * How a message carries its event. `format` is what follows the "+" of the media type ("json", "protobuf", …), "" where
 * nothing does; whether there is a decoder for it is the caller's to know.
 */
export type ContentMode =
  | { readonly mode: "structured" | "batch"; readonly format: string }
  | { readonly mode: "binary" }
  | { readonly mode: "unknown" };

const PREFIX = "application/cloudevents";

/**
 * The content mode by the rule of the HTTP and Kafka bindings (§ 3): a media type whose essence begins with
 * `application/cloudevents` decides, even where headers repeat attributes; otherwise the specversion attribute's header
 * means binary; otherwise it is not known, and the message is refused (UNKNOWN_MODE).
 */
export function contentModeOf(contentType: string | undefined, hasSpecVersion: boolean): ContentMode {
  if (contentType !== undefined && isCloudEventsMediaType(contentType)) {
    const essence = essenceOf(contentType);
    const plus = essence.indexOf("+");
    const type = plus < 0 ? essence : essence.slice(0, plus);
    const format = plus < 0 ? "" : essence.slice(plus + 1);
    if (type === PREFIX) return { mode: "structured", format };
    if (type === `${PREFIX}-batch`) return { mode: "batch", format };
    return { mode: "unknown" };
  }
  return { mode: hasSpecVersion ? "binary" : "unknown" };
}

/** Whether the media type begins as those of the CloudEvents formats do, in any case. */
export function isCloudEventsMediaType(mediaType: string): boolean {
  return essenceOf(mediaType).startsWith(PREFIX);
}
