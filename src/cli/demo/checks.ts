import type { AnswerOf } from "../../client/relay-client.ts";
import type { RelayAudit } from "../../model/audit.ts";
import type { Downstream } from "../../sandbox/downstream.ts";
import { asMetaWrites, identityOf, readRequest } from "../../sandbox/meta/updates.ts";
import type { ObservedPost, Sandbox } from "../../sandbox/start-sandbox.ts";
import { type DemoFormat, everythingPath } from "./settings.ts";

export interface Check {
  readonly what: string;
  readonly seen: Readonly<Record<string, number>>;
  readonly ok: boolean;
}

type Stats = AnswerOf<"getStats">;
export interface RelayStats extends Pick<Stats, "duplicates"> {
  readonly dispositions: Pick<
    Stats["dispositions"],
    "routed" | "filtered" | "ignored" | "quarantined" | "parked"
  >;
  readonly deliveries: Pick<Stats["deliveries"], "waiting" | "held" | "delivered" | "dead">;
}

export function acceptedBy({
  routed,
  filtered,
  ignored,
  parked,
}: RelayStats["dispositions"]): number {
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
  meta: (body) =>
    readRequest(body).map((item) => ({
      identity: identityOf(item),
      text: asMetaWrites(item.item),
    })),
};

export type PostLog = ReturnType<typeof createPostLog>;

export function createPostLog(format: DemoFormat) {
  const events = new Map<string, string>();
  /** What is rightly signed and no event: items by request and place, and whole bodies. */
  const wrong = new Set<string>();
  /** `refused`: wrongly signed posts answered 401, or 429 above the limit per address. */
  const counts = { posts: 0, refused: 0 };
  return {
    events,
    wrong,
    counts,
    note({
      sort,
      answered,
      eventId,
      body,
    }: Pick<ObservedPost, "sort" | "answered" | "eventId" | "body">): void {
      counts.posts += 1;
      if (sort === "wrongly-signed" && (answered === 401 || answered === 429)) counts.refused += 1;
      if (sort === "malformed") wrong.add(body.toString("base64"));
      if (sort !== "event") return;
      for (const [place, { identity, text }] of itemsIn[format](body).entries()) {
        if (identity === null) wrong.add(`${eventId} ${place}`);
        else events.set(identity, text);
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
  readonly messages: readonly Message[];
  readonly log: Pick<PostLog, "events" | "wrong">;
  readonly stats: RelayStats;
  readonly tracked: readonly {
    readonly wamid: string;
    readonly status: string | null;
    readonly reference: string | null;
  }[];
  readonly audit: Pick<RelayAudit, "balanced" | "offenders"> & {
    readonly events: Pick<RelayAudit["events"], "received">;
    readonly deliveries: Pick<RelayAudit["deliveries"], "planned">;
  };
  readonly downstream: Pick<Downstream, "arrivals" | "counts">;
}

export function checkSums({
  format,
  planned,
  sent,
  messages,
  log,
  stats,
  tracked,
  audit,
  downstream,
}: DemoOutcome): Check[] {
  return [
    same("messages sent", {
      planned,
      client: sent.size,
      service: messages.filter(({ origin }) => origin === "api").length,
    }),
    same("events, each stored and delivered once", {
      service: log.events.size,
      relay: acceptedBy(stats.dispositions),
      downstream: downstream.counts(everythingPath).taken,
      "signed and unchanged": unchanged(format, log, downstream).size,
    }),
    same("malformed ones, each quarantined alone", {
      service: log.wrong.size,
      relay: stats.dispositions.quarantined,
    }),
    same("deliveries", {
      relay: stats.deliveries.delivered,
      downstream: downstream.counts().taken,
    }),
    same("last status of each message, with its reference", {
      service: sent.size,
      relay: rightlyTracked(sent, messages, tracked),
    }),
    {
      what: "audit of the relay",
      seen: {
        events: audit.events.received,
        deliveries: audit.deliveries.planned,
        offenders: audit.offenders.length,
      },
      ok: audit.balanced,
    },
  ];
}

function same(what: string, seen: Record<string, number>): Check {
  return { what, seen, ok: new Set(Object.values(seen)).size === 1 };
}

/** The events that came alone in a signed body, byte for byte as the service posted them. */
function unchanged(
  format: DemoFormat,
  log: Pick<PostLog, "events">,
  { arrivals }: Pick<Downstream, "arrivals">,
): Set<string> {
  const identities = new Set<string>();
  for (const { path, answered, signature, body } of arrivals) {
    if (path !== everythingPath || answered !== 200 || signature !== "valid" || body === null)
      continue;
    const [item, ...others] = itemsIn[format](body);
    if (item === undefined || item.identity === null || others.length > 0) continue;
    if (log.events.get(item.identity) === item.text && body.includes(item.text))
      identities.add(item.identity);
  }
  return identities;
}

/**
 * A message that nothing was reported about may be unknown: Meta's registration comes with its
 * first status.
 */
function rightlyTracked(
  sent: DemoOutcome["sent"],
  messages: readonly Message[],
  tracked: DemoOutcome["tracked"],
): number {
  const statuses = new Map<string, string>(messages.map(({ wamid, status }) => [wamid, status]));
  const known = new Map(tracked.map((message) => [message.wamid, message]));
  return [...sent].filter(([wamid, expected]) => {
    const { status, reference } = known.get(wamid) ?? { status: null, reference: expected };
    return (status ?? "pending") === statuses.get(wamid) && reference === expected;
  }).length;
}
