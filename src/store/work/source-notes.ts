import type { Work } from "../sql/ops.ts";
import type { SourceNote } from "../views.ts";
import { list, put } from "./state.ts";

const prefix = "source/";
/** How long a number that receives nothing is kept. */
const keptMs = 90 * 86_400_000;

export function* sourceNotes(): Work<readonly SourceNote[]> {
  return (yield* list<Pick<SourceNote, "at" | "account">>(prefix)).map(({ name, value }) => {
    const slash = name.indexOf("/");
    return { source: name.slice(0, slash), number: name.slice(slash + 1) || null, ...value };
  });
}

export function* noteSource({ source, number, account, at }: SourceNote): Work<void> {
  yield* put(`${prefix}${source}/${number ?? ""}`, { at, account }, number === null ? null : at + keptMs);
}
