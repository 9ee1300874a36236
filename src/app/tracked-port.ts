import type { TrackedReading } from "../control/messages.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { StoreReading } from "../store/reading.ts";
import type { SeqBounds } from "../store/views.ts";
import { walkBack } from "./walk-back.ts";

/** Messages and runs for the control API, over a store or a reader beside one. */
export function createTrackedPort({ messages, runs }: Pick<StoreReading, "messages" | "runs">): TrackedReading {
  /** Newest first; `next` is a seq, which stays inside. */
  async function page<V extends { readonly seq: number }>(
    query: {
      readonly before?: number | undefined;
      readonly limit: number;
      readonly reference?: string | undefined;
      readonly runId?: string | undefined;
    },
    bounds: () => MaybePromise<SeqBounds>,
    list: (after: number, before: number, limit: number) => MaybePromise<readonly V[]>,
  ): Promise<{ data: Omit<V, "seq">[]; next: number | null }> {
    // What has a name of its own is found by index, and there are few of it.
    const isNamed = query.reference !== undefined || query.runId !== undefined;
    const { found, reached } = isNamed
      ? { found: await list(0, query.before ?? Number.MAX_SAFE_INTEGER, query.limit), reached: null }
      : await walkBack({ before: query.before ?? null, limit: query.limit, bounds, read: list });
    const last = found.length >= query.limit ? found.at(-1) : undefined;
    return { data: found.map(({ seq: _, ...view }) => view), next: last?.seq ?? reached };
  }

  return {
    listMessages: (query) => page(query, messages.bounds, (after, before, limit) => messages.list({ ...query, after, before, limit })),
    findMessages: (name) => messages.find(name),
    listRuns: (query) => page(query, runs.bounds, (after, before, limit) => runs.list({ ...query, after, before, limit })),
  };
}
