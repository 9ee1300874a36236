import type { MaybePromise } from "../model/maybe-promise.ts";
import type { ReplayCursor } from "../store/port.ts";

/**
 * One call ends after this and returns where to continue, so that the relay can stop and the client
 * show progress.
 */
export const longestMs = 5_000;

export async function* walk<Step extends { readonly cursor: ReplayCursor | null }>(
  from: ReplayCursor,
  find: (cursor: ReplayCursor) => MaybePromise<Step>,
  stopping: () => boolean,
) {
  for (let cursor: ReplayCursor | null = from; cursor !== null && !stopping(); ) {
    const step: Step = await find(cursor);
    yield step;
    cursor = step.cursor;
  }
}

export function start(since: number): ReplayCursor {
  return { since, event: 0, lane: 0, route: "" };
}

export function parseCursor(text: string): ReplayCursor {
  const [since = 0, event = 0, lane = 0] = text.split(".", 3).map(Number);
  return { since, event, lane, route: text.split(".").slice(3).join(".") };
}

/** The route comes last: it is a name and may have dots. */
export function cursorText({ since, event, lane, route }: ReplayCursor): string {
  return `${since}.${event}.${lane}.${route}`;
}
