import type { RelayAudit } from "../../model/audit.ts";
import { isStatus, type MessageStatus, messageStatuses, supersedes } from "../../model/statuses.ts";
import type { Arrival } from "../../sandbox/downstream/arrivals.ts";
import type { Downstream } from "../../sandbox/downstream/downstream.ts";
import { type AcceptedAt, findOrderViolations } from "../../sandbox/downstream/order.ts";
import type { ObservedPost, Sandbox } from "../../sandbox/start-sandbox.ts";
import { acceptedBy, everythingPath, failuresPath, type RelayStats, statusesPath } from "./relay.ts";

/** One sum, as each party sees it. */
export interface Check {
  readonly what: string;
  readonly seen: Readonly<Record<string, number>>;
  readonly ok: boolean;
}

/** The records of each party. */
export interface DemoOutcome {
  /** The sender's side: messages planned, and those that the service took. */
  readonly client: { readonly planned: number; readonly messages: number };
  readonly service: ServiceRecords;
  readonly log: Pick<PostLog, "events">;
  /** The wamids registered at the relay. */
  readonly tracked: ReadonlySet<string>;
  /** Status by wamid, read from the service, of messages whose events were truncated or dropped. */
  readonly polled: ReadonlyMap<string, string>;
  readonly stats: RelayStats;
  /** Messages that the console counts as sent: those with a status, whoever sent them. */
  readonly inConsole: number;
  readonly downstream: Pick<Downstream, "arrivals" | "counts">;
}

/** Compares the records of client, service, relay and downstream. All are `ok` when nothing was lost, duplicated or changed. */
export function checkSums(outcome: DemoOutcome): Check[] {
  const { client, service, log, tracked, stats, downstream } = outcome;
  const expected = expectedOf(service, log, (wamid) => tracked.has(wamid));
  const reported = statusesReported(downstream.arrivals);
  return [
    same("messages sent, and registered at the relay", {
      planned: client.planned,
      client: client.messages,
      service: service.messages.filter(({ origin }) => origin === "api").length,
      registered: tracked.size,
    }),
    checkSenders(outcome),
    same("events emitted, each accepted once", {
      service: expected.events,
      posted: log.events.size,
      relay: acceptedBy(stats.dispositions),
      downstream: downstream.counts(everythingPath).taken,
    }),
    same("deliveries", { relay: stats.deliveries.delivered, downstream: downstream.counts().taken }),
    checkStatuses(expected, outcome.polled, reported),
    none("faults at the downstream", {
      "out of order": findOrderViolations(downstream.arrivals, (id) => log.events.get(id)).length,
      "changed bytes": countChanged(outcome),
      "bad signatures": downstream.counts().badSignatures,
      "statuses backwards": reported.backwards,
    }),
  ];
}

/** What the relay says of its own store. */
export function auditCheck({ balanced, events, deliveries, offenders }: RelayAudit): Check {
  const seen = { events: events.received, deliveries: deliveries.planned, offenders: offenders.length };
  return { what: "audit of the relay", seen, ok: balanced };
}

export function same(what: string, seen: Record<string, number>): Check {
  return { what, seen, ok: new Set(Object.values(seen)).size === 1 };
}

export function none(what: string, seen: Record<string, number>): Check {
  return { what, seen, ok: Object.values(seen).every((count) => count === 0) };
}

/** Adds up to the number that the console's page Quality shows. */
function checkSenders({ service, log, inConsole }: DemoOutcome): Check {
  const withStatus = new Set([...log.events.values()].flatMap(({ wamid, status }) => (wamid === null || status === null ? [] : [wamid])));
  const sent = service.messages.filter(({ origin }) => origin !== "customer");
  const by = (wanted: string) => sent.filter(({ origin }) => origin === wanted).length;
  const noStatus = -sent.filter(({ wamid }) => !withStatus.has(wamid)).length;
  const seen = {
    client: by("api"),
    campaign: by("campaign"),
    automations: by("automation"),
    "without a status": noStatus,
    console: inConsole,
  };
  return {
    what: "messages of all senders, in the console",
    seen,
    ok: seen.client + seen.campaign + seen.automations + noStatus === inConsole,
  };
}

/** Each tracked message once: its status from events, or from the service where an event was truncated or dropped. */
function checkStatuses(
  { statuses, untold }: Expected,
  polled: DemoOutcome["polled"],
  reported: ReturnType<typeof statusesReported>,
): Check {
  let right = 0;
  let rightWhenPolled = 0;
  for (const [wamid, status] of statuses) {
    if (untold.has(wamid)) rightWhenPolled += polled.get(wamid) === status ? 1 : 0;
    else right += reported.last(wamid) === status ? 1 : 0;
  }
  const seen = { service: statuses.size, "same downstream": right, "truncated, same when polled": rightWhenPolled };
  return { what: "last status of each tracked message", seen, ok: right + rightWhenPolled === statuses.size };
}

/** Deliveries on the routes with `payload: original` whose bytes are not those posted for that event. */
function countChanged({ log, downstream }: Pick<DemoOutcome, "log" | "downstream">): number {
  return downstream.arrivals.filter(({ path, eventId, body }) => {
    if (path === failuresPath || path === statusesPath) return false;
    const posted = log.events.get(eventId ?? "")?.body;
    return body === null || posted?.equals(body) !== true;
  }).length;
}

type RecordOf<Name extends "messages" | "events"> = ReturnType<Sandbox[Name]>[number];

/** What the service remembers at the end. */
export interface ServiceRecords {
  readonly messages: readonly Pick<RecordOf<"messages">, "wamid" | "origin" | "status">[];
  readonly events: readonly (Pick<RecordOf<"events">, "id" | "wamid"> & {
    readonly deliveries: readonly Pick<RecordOf<"events">["deliveries"][number], "status">[];
  })[];
}

type Expected = ReturnType<typeof expectedOf>;

/** The expected sums, from the service's records and its posts. `isTracked`: whether the message was registered at the relay. */
export function expectedOf(service: ServiceRecords, log: Pick<PostLog, "events">, isTracked: (wamid: string) => boolean) {
  const untold = new Set<string>();
  let events = 0;
  for (const { id, wamid, deliveries } of service.events) {
    const posted = deliveries.filter(({ status }) => status !== "dropped").length;
    events += posted;
    const isWhole = posted === deliveries.length && log.events.get(id)?.isTruncated !== true;
    if (!isWhole && wamid !== null && isTracked(wamid)) untold.add(wamid);
  }
  return {
    /** Events emitted for the relay, without those that a fault or the quota dropped. */
    events,
    /** The true status of each tracked message. */
    statuses: new Map(service.messages.filter(({ wamid }) => isTracked(wamid)).map(({ wamid, status }) => [wamid, status])),
    /** Tracked messages with a truncated or dropped event: their events are incomplete. */
    untold,
  };
}

/** The correctly signed posts of one event. */
interface PostedEvent extends AcceptedAt {
  readonly id: string;
  /** Null in truncated events and in those about no message. */
  readonly wamid: string | null;
  readonly status: string | null;
  readonly isTruncated: boolean;
  readonly body: Buffer;
}

export type PostLog = Omit<ReturnType<typeof createPostLog>, "events"> & { readonly events: ReadonlyMap<string, PostedEvent> };

/** The service's record of its posts. */
export function createPostLog() {
  /** By event id. */
  const events = new Map<string, { -readonly [K in keyof PostedEvent]: PostedEvent[K] }>();
  /** `refused`: wrongly signed posts answered 401, or 429 above the limit per address. */
  const counts = { posts: 0, refused: 0 };
  const noteEvent = ({ eventId, body, answered, began, ended }: ObservedPost): void => {
    let event = events.get(eventId);
    if (event === undefined) {
      event = { ...readEvent(body), id: eventId, body, after: began, before: Number.POSITIVE_INFINITY };
      events.set(eventId, event);
    }
    // Answers do not show which of two concurrent copies was stored: the earlier begin and the earlier end bound both.
    event.after = Math.min(event.after, began);
    if (answered === 200) event.before = Math.min(event.before, ended);
  };
  return {
    events,
    counts,
    note(post: ObservedPost): void {
      counts.posts += 1;
      if (post.sort === "event") noteEvent(post);
      else if (post.sort === "wrongly-signed" && (post.answered === 401 || post.answered === 429)) counts.refused += 1;
    },
  };
}

function readEvent(body: Buffer): Pick<PostedEvent, "wamid" | "status" | "isTruncated"> {
  const { data } = JSON.parse(body.toString("utf8")) as { data: Record<string, unknown> };
  const textOf = (value: unknown) => (typeof value === "string" ? value : null);
  return { wamid: textOf(data["wamid"]), status: textOf(data["status"]), isTruncated: data["truncated"] === true };
}

/** The first accepted arrival of each delivery on one path, in order. */
export function takenOn(path: string, arrivals: readonly Arrival[]): Arrival[] {
  const known = new Set<string>();
  return arrivals.filter(({ path: at, deliveryId, answered }) => {
    if (at !== path || answered !== 200 || known.has(deliveryId)) return false;
    known.add(deliveryId);
    return true;
  });
}

/** The transitions of tracked messages that the downstream received. */
export function statusesReported(arrivals: readonly Arrival[]) {
  const last = new Map<string, MessageStatus>();
  const lastOf = (wamid: string): MessageStatus => last.get(wamid) ?? "pending";
  let backwards = 0;
  for (const { wamid, body } of takenOn(statusesPath, arrivals)) {
    const status = (JSON.parse(body?.toString("utf8") ?? "{}") as { data?: { status?: string } }).data?.status ?? "";
    if (wamid === null) continue;
    const isKnown = isStatus(messageStatuses, status);
    if (!isKnown || !supersedes(messageStatuses, lastOf(wamid), status)) backwards += 1;
    if (isKnown) last.set(wamid, status);
  }
  return {
    /** `pending` when no transition arrived. */
    last: lastOf,
    /** Invalid transitions: to a status no higher than the previous one. */
    backwards,
  };
}
