import type { EventId } from "../../event/ids.ts";
import type { Downstream } from "../../sandbox/downstream/downstream.ts";
import { findOrderViolations } from "../../sandbox/downstream/order.ts";
import type { Acknowledgement } from "../../sandbox/traffic/acknowledgements.ts";
import { unexpectedOfEvents } from "../../sandbox/traffic/expected-answers.ts";
import type { Post } from "../../sandbox/traffic/post.ts";
import type { SenderSummary } from "../../sandbox/traffic/post-result.ts";
import { type Expected, expectedOf } from "./expected.ts";
import type { RelayStats } from "./relay-api.ts";
import { answeredPath, everythingPath, failuresPath } from "./relay-settings.ts";

/** One sum, as each party sees it. */
export interface Check {
  readonly what: string;
  readonly seen: Readonly<Record<string, number>>;
  readonly ok: boolean;
}

export interface DemoOutcome {
  readonly posts: readonly Post[];
  readonly summary: SenderSummary;
  readonly acknowledged: ReadonlyMap<EventId, Acknowledgement>;
  /** Faults found in answers to posts that are no events. */
  readonly unexpected: readonly string[];
  readonly stats: RelayStats;
  readonly downstream: Pick<Downstream, "arrivals" | "counts">;
}

/** Compares what the sender, the relay and the downstream each counted. All are `ok` when nothing was lost, doubled or changed. */
export function checkSums(outcome: DemoOutcome): Check[] {
  const { posts, summary, acknowledged, unexpected, stats, downstream } = outcome;
  const expected = expectedOf(posts);
  const { forwarded, filtered, ignored, parked, quarantined } = stats.dispositions;
  const { waiting, held, delivered, dead } = stats.deliveries;
  const answered = summary.accepted + summary.duplicate + summary.quarantined + summary.unauthorized;
  const faults = unexpected.length + unexpectedOfEvents(acknowledged).length;
  const violations = findOrderViolations(downstream.arrivals, (id) => acknowledged.get(id as EventId)).length;
  return [
    same("posts sent, and answered", { planned: posts.length, sender: answered }),
    same("events accepted, each once", {
      planned: expected.events,
      sender: summary.accepted,
      relay: forwarded + filtered + ignored + parked,
      downstream: downstream.counts(everythingPath).taken,
    }),
    same("duplicates", { sender: summary.duplicate, relay: stats.duplicates }),
    same("quarantined", { planned: expected.quarantined, sender: summary.quarantined, relay: quarantined }),
    same("refused for their signature", { planned: expected.unauthorized, sender: summary.unauthorized }),
    same("deliveries", { relay: delivered, downstream: downstream.counts().taken }),
    same("delivered and read, signed for the downstream", {
      planned: expected.answered,
      downstream: downstream.counts(answeredPath).taken,
    }),
    checkFailures(expected, downstream.counts(failuresPath).taken),
    none("still owed, or out of attempts", { waiting, held, dead }),
    none("answers that should have been others", { sender: faults }),
    none("out of order within a message", { downstream: violations }),
    none("other bytes than were posted", { downstream: countChanged(posts, downstream) }),
    none("bad signatures at the downstream", { downstream: downstream.counts().badSignatures }),
  ];
}

function same(what: string, seen: Record<string, number>): Check {
  return { what, seen, ok: new Set(Object.values(seen)).size === 1 };
}

function none(what: string, seen: Record<string, number>): Check {
  return { what, seen, ok: Object.values(seen).every((count) => count === 0) };
}

/** A failure that arrives after its message was delivered moves nothing and is not told: how many those are hangs on the order of arrival. */
function checkFailures({ failures }: Expected, downstream: number): Check {
  const seen = { "planned at least": failures.least, downstream, "at most": failures.most };
  return { what: "failures of tracked messages, told once", seen, ok: failures.least <= downstream && downstream <= failures.most };
}

/** Deliveries on the routes with `payload: original` whose bytes are none that were posted for that event. */
function countChanged(posts: readonly Post[], { arrivals }: Pick<Downstream, "arrivals">): number {
  const posted = new Map<string, Buffer[]>();
  for (const { expected, body } of posts) {
    if (expected.of !== "event") continue;
    const bodies = posted.get(expected.id);
    if (bodies === undefined) posted.set(expected.id, [body]);
    else bodies.push(body);
  }
  return arrivals.filter(({ path, eventId, body }) => {
    if (path === failuresPath) return false;
    const bodies = posted.get(eventId ?? "") ?? [];
    return body === null || !bodies.some((one) => one.equals(body));
  }).length;
}
