import type { Sandbox } from "../../sandbox/start-sandbox.ts";
import type { PostedEvent, PostLog } from "./post-log.ts";
import { answeredStatuses } from "./relay-settings.ts";

type RecordOf<Name extends "messages" | "runs" | "events"> = ReturnType<Sandbox[Name]>[number];

/** What the service remembers at the end. */
export interface ServiceRecords {
  readonly messages: readonly Pick<RecordOf<"messages">, "wamid" | "origin" | "status">[];
  readonly runs: readonly Pick<RecordOf<"runs">, "status">[];
  readonly events: readonly (Pick<RecordOf<"events">, "id" | "wamid"> & {
    readonly deliveries: readonly Pick<RecordOf<"events">["deliveries"][number], "status">[];
  })[];
}

/** What a run must come to, by the service's records and its posts. */
export interface Expected {
  /** Events emitted for the relay, but for those that a fault or the quota dropped. */
  readonly events: number;
  /** Events on the route of delivered and read messages. */
  readonly answered: number;
  /** Failures told once per tracked message, as a range: how copies under way together overtook one another is not known. */
  readonly failures: { readonly least: number; readonly most: number };
  /** The true status of each tracked message. */
  readonly statuses: ReadonlyMap<string, string>;
  /** Tracked messages of which an event came truncated or was dropped: what events tell of them is not all. */
  readonly untold: ReadonlySet<string>;
}

/** `isTracked`: whether the relay was told of the message. */
export function expectedOf(service: ServiceRecords, log: Pick<PostLog, "events">, isTracked: (wamid: string) => boolean): Expected {
  const untold = new Set<string>();
  let events = 0;
  for (const { id, wamid, deliveries } of service.events) {
    const posted = deliveries.filter(({ status }) => status !== "dropped").length;
    events += posted;
    const isWhole = posted === deliveries.length && log.events.get(id)?.isTruncated !== true;
    if (!isWhole && wamid !== null && isTracked(wamid)) untold.add(wamid);
  }
  return {
    events,
    answered: [...log.events.values()].filter(({ status }) => isAnswered(status)).length,
    failures: failuresOf([...log.events.values()].filter(({ wamid }) => wamid !== null && isTracked(wamid))),
    statuses: new Map(service.messages.filter(({ wamid }) => isTracked(wamid)).map(({ wamid, status }) => [wamid, status])),
    untold,
  };
}

const isAnswered = (status: string | null) => (answeredStatuses as readonly (string | null)[]).includes(status);

/** A failure that arrives after its message was delivered or read moves nothing and is not told. */
function failuresOf(events: readonly PostedEvent[]): Expected["failures"] {
  let least = 0;
  let most = 0;
  for (const ofMessage of Map.groupBy(events, ({ wamid }) => wamid).values()) {
    const failed = ofMessage.filter(({ status }) => status === "failed");
    const answered = ofMessage.filter(({ status }) => isAnswered(status));
    if (failed.some((failure) => answered.every((other) => failure.before < other.after))) least += 1;
    if (failed.some((failure) => !answered.some((other) => other.before < failure.after))) most += 1;
  }
  return { least, most };
}
