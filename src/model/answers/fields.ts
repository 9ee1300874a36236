import { z } from "zod";
import { pii } from "../view.ts";

/*
 * The answers of the control API (docs/reference/endpoints.md). Each schema is the only declaration
 * of its JSON: the ports, the HTTP handlers, the published client, the commands and
 * `/v1/openapi.json` derive their types from it. `id` is the schema's name in `/v1/openapi.json`; a
 * test demands a description of every field.
 */

export const text = z.string().nullable();
export const foreignText = pii("text", text);
/** A word of the service, such as a status. */
export const foreignWord = pii("word", text);
export const count = z.int().min(0);
export const seq = z.int().min(0);
export const account = z.string().describe("The account.");
export const route = z.string().describe("The route.");
export const source = z.string().describe("The source.");

export function counts<const Word extends string>(
  words: readonly Word[],
  about: (word: Word) => string,
): Record<Word, typeof count> {
  return Object.fromEntries(words.map((word) => [word, count.describe(about(word))])) as Record<
    Word,
    typeof count
  >;
}

export const nextSeq = seq.nullable().describe("`before` of the next page; null at the end.");
export const nextText = text.describe("`before` of the next page; null at the end.");
