import { useState } from "preact/hooks";
import type { RelayStory, RequestOf } from "../../client/relay-client.ts";
import { relay } from "../app/api.ts";
import { useData } from "../app/data.ts";

const eventsPerPage = 100;

interface Stories {
  readonly stories: readonly RelayStory[] | null;
  readonly problem: string | null;
  readonly isMissing: boolean;
  readonly isLoading: boolean;
  /** Reads another page of events; null when all are shown. */
  readonly more: (() => void) | null;
  reload(): void;
}

/** The stories of a message or run, read again every few seconds while they are masked. */
export function useStories(name: string, filter: Omit<RequestOf<"explain">, "name">): Stories {
  const [pages, setPages] = useState(1);
  const { data, problem, isMissing, isLoading, reload } = useData(
    async () => {
      const { data: stories } = await relay.explain({ name, ...filter, limit: eventsPerPage });
      const [only, ...others] = stories;
      if (only === undefined || others.length > 0) return stories;
      let story = only;
      for (let page = 1; page < pages && story.next !== null; page += 1) {
        const { data: later } = await relay.explain({ name, ...filter, limit: eventsPerPage, after: story.next });
        const next = later[0];
        if (next === undefined) break;
        story = { ...story, events: [...story.events, ...next.events], next: next.next };
      }
      return [story];
    },
    JSON.stringify([name, filter, pages]),
    // Each revealed read is logged.
    filter.reveal === true ? null : 5_000,
    filter.reveal === true ? JSON.stringify([name, { ...filter, reveal: undefined }, pages]) : null,
  );
  const hasMore = data?.length === 1 && data[0]?.next !== null;
  return { stories: data, problem, isMissing, isLoading, more: hasMore ? () => setPages(pages + 1) : null, reload };
}
