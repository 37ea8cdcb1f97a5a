import { type Field, type Filter } from "./tree.ts";

/**
 * What is left of a filter without what it says of a field by itself: of conditions that are joined by AND at the top, those on
 * that field alone (also joined by OR, or negated) go. undefined where nothing is left.
 */
export function withoutField(filter: Filter | undefined, field: Field): Filter | undefined {
  if (filter === undefined || isAbout(filter, field)) return undefined;
  if (filter.kind !== "and") return filter;
  const left = filter.of.filter((each) => !isAbout(each, field));
  if (left.length === filter.of.length) return filter;
  return left.length > 1 ? { kind: "and", of: left } : left[0];
}

/** Whether every condition of a filter is on the field. */
function isAbout(filter: Filter, field: Field): boolean {
  switch (filter.kind) {
    case "and":
    case "or":
      return filter.of.every((each) => isAbout(each, field));
    case "not":
      return isAbout(filter.of, field);
    case "text":
      return false;
    default:
      return filter.field.kind === field.kind && nameOf(filter.field) === nameOf(field);
  }
}

function nameOf(field: Field): string {
  return "name" in field ? field.name : "";
}
