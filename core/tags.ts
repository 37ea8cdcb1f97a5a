import { type CloudEvent } from "./event.ts";

/** The values of the extension `tags`, which are separated by commas: trimmed, without empty ones, in their order. */
export function tagsOf(event: CloudEvent): string[] {
  const tags = event.extensions.get("tags")?.split(",") ?? [];
  return tags.map((tag) => tag.trim()).filter((tag) => tag !== "");
}
