import { wordTerms } from "../terms.ts";
import { wordsOf } from "../words.ts";
import { foldCase } from "./fold-case.ts";

/** What an event must have to fulfil a text condition: the terms, and the text itself where they do not say it all. */
export interface FullText {
  /** Of its words, those of one unit left out: all must be among the event's. */
  readonly terms: readonly number[];
  /** By {@link foldCase}; it must occur in one of the event's texts, unless the terms suffice. */
  readonly folded: string;
  /**
   * One word of two units or more, without digits: its term says it all. Of an event without all of its terms
   * (INCOMPLETE_TERM) the text decides, also here.
   */
  readonly isPlainWord: boolean;
}

/** Reads the text of a condition. */
export function fullTextOf(text: string): FullText {
  const lower = text.toLowerCase();
  const words = wordsOf(text);
  const isPlainWord = words.length === 1 && words[0] === lower && lower.length > 1 && !/[0-9]/.test(lower);
  return { terms: wordTerms(text), folded: foldCase(text), isPlainWord };
}
