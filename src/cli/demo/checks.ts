import type { Downstream } from "../../sandbox/downstream/downstream.ts";
import { findOrderViolations } from "../../sandbox/downstream/order.ts";
import { type Expected, expectedOf, type ServiceRecords } from "./expected.ts";
import type { PostLog } from "./post-log.ts";
import { acceptedBy, type RelayStats } from "./relay-api.ts";
import { answeredPath, everythingPath, failuresPath, statusesPath } from "./relay-settings.ts";
import { runsTold, type StatusesTold, statusesTold } from "./told.ts";

/** One sum, as each party sees it. */
export interface Check {
  readonly what: string;
  readonly seen: Readonly<Record<string, number>>;
  readonly ok: boolean;
}

/** What each party saw. */
export interface DemoOutcome {
  /** The sender's side: messages and runs planned, and those that the service took. */
  readonly client: { readonly planned: number; readonly messages: number; readonly runs: number };
  readonly service: ServiceRecords;
  readonly log: Pick<PostLog, "events" | "counts">;
  /** The wamids registered at the relay. */
  readonly tracked: ReadonlySet<string>;
  /** The status of messages that events told too little of, by wamid, as the service answered when asked. */
  readonly asked: ReadonlyMap<string, string>;
  readonly stats: RelayStats;
  readonly downstream: Pick<Downstream, "arrivals" | "counts">;
}

/** Compares what client, service, relay and downstream each saw. All are `ok` when nothing was lost, doubled, changed or told wrongly. */
export function checkSums(outcome: DemoOutcome): Check[] {
  const { client, service, log, tracked, stats, downstream } = outcome;
  const expected = expectedOf(service, log, (wamid) => tracked.has(wamid));
  const { posts, taken, malformed, quarantined, wronglySigned, refused, unexpected } = log.counts;
  const { waiting, held, delivered, dead } = stats.deliveries;
  const ended = service.runs.filter(({ status }) => status !== "running");
  const runs = runsTold(downstream.arrivals);
  const told = statusesTold(downstream.arrivals);
  return [
    same("messages sent, and registered at the relay", {
      planned: client.planned,
      client: client.messages,
      service: service.messages.filter(({ origin }) => origin === "api").length,
      registered: tracked.size,
    }),
    same("posts of events, and answered", { service: posts, "taken, quarantined or refused": taken + quarantined + refused }),
    same("events emitted, each accepted once", {
      service: expected.events,
      posted: log.events.size,
      relay: acceptedBy(stats.dispositions),
      downstream: downstream.counts(everythingPath).taken,
    }),
    same("duplicates", { service: taken - log.events.size, relay: stats.duplicates }),
    same("quarantined", { malformed, answered: quarantined, relay: stats.dispositions.quarantined }),
    same("refused for their signature", { "wrongly signed": wronglySigned, answered: refused }),
    same("deliveries", { relay: delivered, downstream: downstream.counts().taken }),
    same("automation runs, and their ends told", { client: client.runs, service: ended.length, downstream: runs.completed + runs.failed }),
    same("failed runs", { service: ended.filter(({ status }) => status === "failed").length, downstream: runs.failed }),
    same("delivered and read, signed for the downstream", {
      posted: expected.answered,
      downstream: downstream.counts(answeredPath).taken,
    }),
    checkFailures(expected, downstream.counts(failuresPath).taken),
    checkStatuses(expected, outcome.asked, told),
    none("statuses that went backwards", { downstream: told.backwards }),
    none("still owed, or out of attempts", { waiting, held, dead }),
    none("answers that should have been others", { service: unexpected }),
    none("out of order within a message", {
      downstream: findOrderViolations(downstream.arrivals, (id) => log.events.get(id)).length,
    }),
    none("other bytes than were posted", { downstream: countChanged(outcome) }),
    none("bad signatures at the downstream", { downstream: downstream.counts().badSignatures }),
  ];
}

function same(what: string, seen: Record<string, number>): Check {
  return { what, seen, ok: new Set(Object.values(seen)).size === 1 };
}

function none(what: string, seen: Record<string, number>): Check {
  return { what, seen, ok: Object.values(seen).every((count) => count === 0) };
}

function checkFailures({ failures }: Expected, downstream: number): Check {
  const seen = { "posted at least": failures.least, downstream, "at most": failures.most };
  return { what: "failures of tracked messages, told once", seen, ok: failures.least <= downstream && downstream <= failures.most };
}

/** Every tracked message once: told by events, or, where one came truncated or was dropped, asked of the service. */
function checkStatuses({ statuses, untold }: Expected, asked: DemoOutcome["asked"], told: StatusesTold): Check {
  let right = 0;
  let rightWhenAsked = 0;
  for (const [wamid, status] of statuses) {
    if (untold.has(wamid)) rightWhenAsked += asked.get(wamid) === status ? 1 : 0;
    else right += told.last(wamid) === status ? 1 : 0;
  }
  const seen = { service: statuses.size, "same downstream": right, "truncated, same when asked": rightWhenAsked };
  return { what: "last status of each tracked message", seen, ok: right + rightWhenAsked === statuses.size };
}

/** Deliveries on the routes with `payload: original` whose bytes are not those posted for that event. */
function countChanged({ log, downstream }: Pick<DemoOutcome, "log" | "downstream">): number {
  return downstream.arrivals.filter(({ path, eventId, body }) => {
    if (path === failuresPath || path === statusesPath) return false;
    const posted = log.events.get(eventId ?? "")?.body;
    return body === null || posted?.equals(body) !== true;
  }).length;
}
