import type { RelayEvent } from "../model/answers.ts";
import type { Clock } from "../model/clock.ts";
import type { RelayOverview } from "../model/overview.ts";
import type { Connection, RelayClientError } from "./connection.ts";
import { follow, lost, type StreamMessage } from "./follow.ts";

/** One step of `live`, in the order in which they happen. */
export type LiveMessage =
  /** The connection is open: what follows is current. */
  | { readonly kind: "open" }
  | { readonly kind: "overview"; readonly overview: RelayOverview }
  /** Stored since the last one, oldest first. `skipped`: number of events that the stream leaves out, because there are too many. */
  | { readonly kind: "events"; readonly data: readonly RelayEvent[]; readonly skipped: number }
  /** The connection broke. The next attempt follows by itself after `retryInMs`. */
  | { readonly kind: "lost"; readonly error: RelayClientError; readonly retryInMs: number };

interface LiveParts {
  readonly connection: Pick<Connection, "stream">;
  /** With its query. */
  readonly path: string;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly random: () => number;
}

export async function* followLive({ connection, path, ...parts }: LiveParts): AsyncGenerator<LiveMessage, void> {
  const open = (lastEventId: string | null, signal: AbortSignal) =>
    connection.stream(path, lastEventId === null ? {} : { "last-event-id": lastEventId }, signal);
  for await (const step of follow({ open, read: liveMessage, ...parts })) {
    if (step.kind === "message") {
      if (step.message !== null) yield step.message;
    } else if (step.kind !== "connecting") yield step;
  }
}

/** Null: of a later version. */
function liveMessage({ event, data }: StreamMessage): LiveMessage | null {
  if (event === "bye") throw lost(`the relay ended the stream: ${(JSON.parse(data) as { reason?: string }).reason}`);
  if (event === "overview") return { kind: "overview", overview: JSON.parse(data) as RelayOverview };
  if (event === "events") return { kind: "events", ...(JSON.parse(data) as { data: RelayEvent[]; skipped: number }) };
  return null;
}
