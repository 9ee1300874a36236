import type { RelayEvent } from "../model/answers/events.ts";
import type { RelayOverview } from "../model/overview.ts";
import type { Connection } from "./connection.ts";
import { type FollowParts, follow, lost, type Step, type StreamMessage } from "./follow.ts";

/** One step of `live`, in the order in which they happen. */
export type LiveMessage =
  | Exclude<Step<never>, { readonly kind: "connecting" | "message" }>
  | { readonly kind: "overview"; readonly overview: RelayOverview }
  /**
   * Stored since the last one, oldest first. `skipped`: number of events that the stream leaves
   * out, because there are too many.
   */
  | { readonly kind: "events"; readonly data: readonly RelayEvent[]; readonly skipped: number };

interface LiveParts
  extends Pick<FollowParts<LiveMessage>, "signal" | "clock" | "random" | "longestWaitMs"> {
  readonly connection: Pick<Connection, "stream">;
  /** With its query. */
  readonly path: string;
}

export async function* followLive({
  connection,
  path,
  ...parts
}: LiveParts): AsyncGenerator<LiveMessage, void> {
  for await (const step of follow({
    open: opening(connection, path),
    read: liveMessage,
    ...parts,
  })) {
    if (step.kind === "message") {
      if (step.message !== null) yield step.message;
    } else if (step.kind !== "connecting") yield step;
  }
}

export function opening(
  { stream }: Pick<Connection, "stream">,
  path: string,
): FollowParts<unknown>["open"] {
  return (lastEventId, signal) =>
    stream(path, lastEventId === null ? {} : { "last-event-id": lastEventId }, signal);
}

/** Null: of a later version. */
function liveMessage({ event, data }: StreamMessage): LiveMessage | null {
  if (event === "bye")
    throw lost(`the relay ended the stream: ${(JSON.parse(data) as { reason?: string }).reason}`);
  if (event === "overview")
    return { kind: "overview", overview: JSON.parse(data) as RelayOverview };
  if (event === "events")
    return { kind: "events", ...(JSON.parse(data) as { data: RelayEvent[]; skipped: number }) };
  return null;
}
