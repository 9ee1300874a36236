import type { Downstream } from "../../sandbox/downstream/downstream.ts";
import { identityOf, type RequestItem, readRequest } from "../../sandbox/meta/read-request.ts";
import { asMetaWrites } from "../../sandbox/meta/request-body.ts";
import type { ObservedPost } from "../../sandbox/start-sandbox.ts";
import { type Check, none, same, statusesReported, takenOn } from "./checks.ts";
import { acceptedBy, everythingPath, type RelayStats, statusesPath } from "./relay.ts";

export type MetaPostLog = ReturnType<typeof createMetaPostLog>;

/** Meta's record of its posts. */
export function createMetaPostLog() {
  /** Each update once: its text, by what identifies it. */
  const updates = new Map<string, string>();
  /** Items that are no updates, by request and place. */
  const wrong = new Set<string>();
  const requests = new Set<string>();
  const counts = { posts: 0, refused: 0 };
  return {
    updates,
    wrong,
    requests,
    counts,
    note({ sort, answered, eventId, body }: ObservedPost): void {
      counts.posts += 1;
      if (sort === "wrongly-signed" && (answered === 401 || answered === 429)) counts.refused += 1;
      if (sort !== "event" || requests.has(eventId)) return;
      requests.add(eventId);
      for (const [place, item] of readRequest(body).entries()) {
        const identity = identityOf(item);
        if (identity === null) wrong.add(`${eventId} ${place}`);
        else updates.set(identity, asMetaWrites(item.item));
      }
    },
  };
}

/** The records of each party. */
export interface MetaOutcome {
  /** Messages to people whom the provider accepts. */
  readonly planned: number;
  /** The reference of each message that was accepted, by wamid. */
  readonly sent: ReadonlyMap<string, string>;
  readonly service: readonly { readonly wamid: string; readonly origin: string; readonly status: string }[];
  readonly log: Pick<MetaPostLog, "updates" | "wrong" | "requests">;
  readonly stats: RelayStats;
  readonly downstream: Pick<Downstream, "arrivals" | "counts">;
}

/** Compares the records of sender, Meta, relay and downstream. */
export function checkMetaSums({ planned, sent, service, log, stats, downstream }: MetaOutcome): Check[] {
  const statuses = service.filter(({ origin }) => origin === "api");
  const withStatus = new Set(statuses.filter(({ status }) => status !== "pending").map(({ wamid }) => wamid));
  const reported = statusesReported(downstream.arrivals);
  const alone = takenOn(everythingPath, downstream.arrivals).map(({ body }) => ({ body, items: readRequest(body ?? Buffer.from("{}")) }));
  const received = new Set(alone.flatMap(({ items }) => items.map(identityOf)));
  return [
    same("messages sent", { planned, answered: sent.size, service: statuses.length }),
    same("messages with a status, known by their reference", {
      service: withStatus.size,
      downstream: referencesRight(downstream, sent),
    }),
    same("updates posted, each stored and delivered once", {
      service: log.updates.size,
      relay: acceptedBy(stats.dispositions),
      downstream: downstream.counts(everythingPath).taken,
      "different ones": received.size,
    }),
    same("wrong items, each quarantined alone", { service: log.wrong.size, relay: stats.dispositions.quarantined }),
    same("deliveries", { relay: stats.deliveries.delivered, downstream: downstream.counts().taken }),
    same("last status of each message", {
      service: statuses.length,
      "same downstream": statuses.filter(({ wamid, status }) => reported.last(wamid) === status).length,
    }),
    none("faults at the downstream", {
      "not one update": alone.filter(({ items }) => items.length !== 1).length,
      "changed bytes": alone.filter(({ body, items }) => !items.every((item) => isUnchanged(log, item, body))).length,
      "others' contacts": alone.filter(({ items }) => items.some(({ contacts }) => contacts.length > 1)).length,
      "bad signatures": downstream.counts().badSignatures,
      "statuses backwards": reported.backwards,
    }),
  ];
}

/** Messages whose transitions all name the reference that they were sent with. */
function referencesRight({ arrivals }: Pick<Downstream, "arrivals">, sent: ReadonlyMap<string, string>): number {
  const byWamid = Map.groupBy(takenOn(statusesPath, arrivals), ({ wamid }) => wamid ?? "");
  const referenceIn = (body: Buffer | null): unknown =>
    (JSON.parse(body?.toString("utf8") ?? "{}") as { relay?: { message?: { reference?: unknown } } }).relay?.message?.reference;
  return [...byWamid].filter(([wamid, all]) => sent.has(wamid) && all.every(({ body }) => referenceIn(body) === sent.get(wamid))).length;
}

function isUnchanged({ updates }: Pick<MetaPostLog, "updates">, item: RequestItem, body: Buffer | null): boolean {
  const posted = updates.get(identityOf(item) ?? "");
  return posted !== undefined && body?.includes(posted) === true;
}
