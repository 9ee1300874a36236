import type { AnswerOf } from "../../client/relay-client.ts";
import type { RelayAudit } from "../../model/audit.ts";
import { isStatus, type MessageStatus, messageStatuses, supersedes } from "../../model/statuses.ts";
import { type AcceptedAt, type Arrival, findOrderViolations } from "../../sandbox/downstream/arrivals.ts";
import type { Downstream } from "../../sandbox/downstream/downstream.ts";
import { identityOf, readRequest } from "../../sandbox/meta/graph-routes.ts";
import { asMetaWrites } from "../../sandbox/meta/request-body.ts";
import type { ObservedPost, Sandbox } from "../../sandbox/start-sandbox.ts";
import { type DemoFormat, everythingPath, statusesPath } from "./settings.ts";

export interface Check {
  readonly what: string;
  readonly seen: Readonly<Record<string, number>>;
  readonly ok: boolean;
}

type Stats = AnswerOf<"getStats">;
export interface RelayStats extends Pick<Stats, "duplicates"> {
  readonly dispositions: Pick<Stats["dispositions"], "routed" | "filtered" | "ignored" | "quarantined" | "parked">;
  readonly deliveries: Pick<Stats["deliveries"], "waiting" | "held" | "delivered" | "dead">;
}

export function acceptedBy({ routed, filtered, ignored, parked }: RelayStats["dispositions"]): number {
  return routed + filtered + ignored + parked;
}

/** One event in a body. Null: no event, which the relay quarantines. */
interface BodyItem {
  readonly identity: string | null;
  readonly text: string;
}

/** What is in a body, read without the relay's own code for it. */
const itemsIn: Readonly<Record<DemoFormat, (body: Buffer) => BodyItem[]>> = {
  standard(body) {
    const text = body.toString("utf8");
    return [{ identity: (JSON.parse(text) as { id: string }).id, text }];
  },
  meta: (body) => readRequest(body).map((item) => ({ identity: identityOf(item), text: asMetaWrites(item.item) })),
};

interface PostedEvent extends AcceptedAt {
  readonly text: string;
}

export type PostLog = ReturnType<typeof createPostLog>;

export function createPostLog(format: DemoFormat) {
  /** Each event once, by what identifies it. */
  const events = new Map<string, { -readonly [K in keyof PostedEvent]: PostedEvent[K] }>();
  /** What is rightly signed and no event: items by request and place, and whole bodies. */
  const wrong = new Set<string>();
  /** `refused`: wrongly signed posts answered 401, or 429 above the limit per address. */
  const counts = { posts: 0, refused: 0 };
  return {
    events,
    wrong,
    counts,
    note({ sort, answered, eventId, body, began, ended }: ObservedPost): void {
      counts.posts += 1;
      if (sort === "wrongly-signed" && (answered === 401 || answered === 429)) counts.refused += 1;
      if (sort === "malformed") wrong.add(body.toString("base64"));
      if (sort !== "event") return;
      for (const [place, { identity, text }] of itemsIn[format](body).entries()) {
        if (identity === null) wrong.add(`${eventId} ${place}`);
        else {
          const event = events.get(identity) ?? { text, after: began, before: Number.POSITIVE_INFINITY };
          events.set(identity, event);
          // Answers do not show which of two concurrent copies was stored: the earlier begin and the earlier end bound both.
          event.after = Math.min(event.after, began);
          if (answered === 200) event.before = Math.min(event.before, ended);
        }
      }
    },
  };
}

type Message = Pick<ReturnType<Sandbox["messages"]>[number], "wamid" | "origin" | "status">;

export interface DemoOutcome {
  readonly format: DemoFormat;
  /** Messages to people whom the provider accepts. */
  readonly planned: number;
  /** The reference of each message that the service accepted, by wamid. */
  readonly sent: ReadonlyMap<string, string>;
  readonly service: {
    readonly messages: readonly Message[];
    readonly events: readonly { readonly id: string; readonly wamid: string | null }[];
  };
  readonly log: Pick<PostLog, "events" | "wrong">;
  readonly stats: RelayStats;
  readonly audit: Pick<RelayAudit, "balanced" | "offenders"> & {
    readonly events: Pick<RelayAudit["events"], "received">;
    readonly deliveries: Pick<RelayAudit["deliveries"], "planned">;
  };
  readonly downstream: Pick<Downstream, "arrivals" | "counts">;
}

export function checkSums({ format, planned, sent, service, log, stats, audit, downstream }: DemoOutcome): Check[] {
  const { arrivals } = downstream;
  const bodies = takenOn(everythingPath, arrivals).map(({ body }) => body ?? Buffer.alloc(0));
  const received = bodies.map((body) => ({ body, items: itemsIn[format](body) }));
  const isPosted = (body: Buffer, { identity, text }: BodyItem) => log.events.get(identity ?? "")?.text === text && body.includes(text);
  const expected = reportedMessages({ sent, service, log });
  const reported = statusesReported(arrivals, sent);
  return [
    same("messages sent", {
      planned,
      client: sent.size,
      service: service.messages.filter(({ origin }) => origin === "api").length,
    }),
    same("events, each stored and delivered once", {
      service: log.events.size,
      relay: acceptedBy(stats.dispositions),
      downstream: downstream.counts(everythingPath).taken,
      "different ones": new Set(received.flatMap(({ items }) => items.map(({ identity }) => identity))).size,
    }),
    same("malformed ones, each quarantined alone", { service: log.wrong.size, relay: stats.dispositions.quarantined }),
    same("deliveries", { relay: stats.deliveries.delivered, downstream: downstream.counts().taken }),
    same("last status of each message, with its reference", {
      service: expected.length,
      downstream: expected.filter(({ wamid, status }) => reported.last(wamid) === status).length,
    }),
    none("faults at the downstream", {
      "not one event": received.filter(({ items }) => items.length !== 1).length,
      "changed bytes": received.filter(({ body, items }) => !items.every((item) => isPosted(body, item))).length,
      "out of order": findOrderViolations(arrivals, (id) => log.events.get(id)).length,
      "bad signatures": downstream.counts().badSignatures,
      "statuses backwards": reported.backwards,
      "other references": reported.otherReferences,
    }),
    {
      what: "audit of the relay",
      seen: { events: audit.events.received, deliveries: audit.deliveries.planned, offenders: audit.offenders.length },
      ok: audit.balanced,
    },
  ];
}

function same(what: string, seen: Record<string, number>): Check {
  return { what, seen, ok: new Set(Object.values(seen)).size === 1 };
}

function none(what: string, seen: Record<string, number>): Check {
  return { what, seen, ok: Object.values(seen).every((count) => count === 0) };
}

/** The registered messages whose events were all posted with their data: a truncated one names no message. */
function reportedMessages({ sent, service, log }: Pick<DemoOutcome, "sent" | "service" | "log">): Message[] {
  const isTruncated = (id: string) => log.events.get(id)?.text.includes('"truncated":true') === true;
  const truncated = new Set(service.events.filter(({ id }) => isTruncated(id)).map(({ wamid }) => wamid));
  return service.messages.filter(({ wamid }) => sent.has(wamid) && !truncated.has(wamid));
}

/** The first accepted arrival of each delivery on one path, in order. */
function takenOn(path: string, arrivals: readonly Arrival[]): Arrival[] {
  const known = new Set<string>();
  return arrivals.filter(({ path: at, deliveryId, answered }) => {
    if (at !== path || answered !== 200 || known.has(deliveryId)) return false;
    known.add(deliveryId);
    return true;
  });
}

interface Transition {
  readonly data?: { readonly status?: string };
  readonly relay?: { readonly message?: { readonly reference?: string } };
}

function statusesReported(arrivals: readonly Arrival[], references: ReadonlyMap<string, string>) {
  const last = new Map<string, MessageStatus>();
  const lastOf = (wamid: string): MessageStatus => last.get(wamid) ?? "pending";
  let backwards = 0;
  let otherReferences = 0;
  for (const { wamid, body } of takenOn(statusesPath, arrivals)) {
    if (wamid === null) continue;
    const { data, relay } = JSON.parse(body?.toString("utf8") ?? "{}") as Transition;
    const status = data?.status ?? "";
    if (relay?.message?.reference !== references.get(wamid)) otherReferences += 1;
    if (!isStatus(messageStatuses, status) || !supersedes(messageStatuses, lastOf(wamid), status)) backwards += 1;
    if (isStatus(messageStatuses, status)) last.set(wamid, status);
  }
  return { last: lastOf, backwards, otherReferences };
}
