import { foldCase } from "#core/filter/fold-case.ts";
import { fullTextOf } from "#core/filter/full-text.ts";
import { INCOMPLETE_TERM } from "#core/terms.ts";

import { isStorable, NOTHING } from "./filter-value.ts";
import { type Parameters } from "./parameters.ts";

/** The rows whose terms are not all there. */
export const INCOMPLETE: string = `terms @> '{${INCOMPLETE_TERM}}'::int4[]`;

/** A word or a phrase; see {@link fullTextOf}. */
export function matchText(text: string, parameters: Parameters): string {
  const { terms, isPlainWord } = fullTextOf(text);
  const needle = foldCase(text);
  if (!isStorable(needle)) return NOTHING;
  const place = parameters.bind(needle, "text");
  const occurs = occursAnywhere(place, JSON.stringify(needle).length > needle.length + 2);
  if (terms.length === 0) return occurs;
  const hasTerms = `terms @> ${parameters.bind(terms, "int4[]")}`;
  return isPlainWord
    ? `case when ${INCOMPLETE} then ${occurs} else ${hasTerms} end`
    : `((${hasTerms} or ${INCOMPLETE}) and ${occurs})`;
}

const folded = (text: string): string => `replace(lower(${text} collate "pg_unicode_fast"), 'ς', 'σ')`;

/** Whether the text at a place of the parameters is part of one of the event's texts, in any case. */
function occursAnywhere(place: string, isEscapedInJson: boolean): string {
  const occursIn = (text: string): string => `strpos(${folded(text)}, ${place}) > 0`;
  const attributes = ["id", "source", "type", "subject"].map(occursIn);
  const extensions = `exists (select from jsonb_each_text(extensions) as extension where ${occursIn("extension.value")})`;
  const strings = `jsonb_path_query(convert_from(data, 'UTF8')::jsonb, 'strict $.** ? (@.type() == "string")')`;
  const inStrings = `exists (select from ${strings} as string where ${occursIn("(string #>> '{}')")})`;
  // JSON is parsed only where the text may be in it: as it is, or by way of an escape.
  const payload = "convert_from(data, 'UTF8')";
  const may = isEscapedInJson
    ? `position('\\x5c'::bytea in data) > 0`
    : `(${occursIn(payload)} or position('\\x5c'::bytea in data) > 0)`;
  const data = `case data_form when 'j' then ${may} and ${inStrings} when 't' then ${occursIn(payload)} else false end`;
  return `(${[...attributes, extensions, data].join(" or ")})`;
}
