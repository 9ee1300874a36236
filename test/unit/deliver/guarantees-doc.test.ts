import { describe, expect, test } from "vitest";
import { decide, type SettlingDecision, settledBy } from "../../../src/deliver/decide.ts";
import { retrySchema } from "../../../src/deliver/destinations/destination.ts";
import { queueDestinationSchema } from "../../../src/deliver/destinations/queue.ts";
import { routeUrlSchema } from "../../../src/deliver/destinations/url.ts";
import {
  type AttemptError,
  type AttemptResult,
  attemptErrors,
} from "../../../src/model/delivery.ts";
import { deliveryStates } from "../../../src/model/states.ts";
import { outcomeOf } from "../../../src/store/work/counts.ts";
import { codeBlocks, readPage } from "../../harness/pages.ts";

const page = readPage("docs/concepts/delivery-guarantees.md");
const causes = [...page.matchAll(/^\| (a status, such as )?`([\w-]+)` \| (counts|free) \|/gm)].map(
  ([, , cause = "", attempt]) => ({
    cause,
    attempt,
  }),
);

const retry = retrySchema.parse({});
const now = 1_700_000_000_000;
const middle = () => 0.5;

function resultOf(cause: string): AttemptResult {
  if (/^\d+$/.test(cause)) return { kind: "answered", status: Number(cause), retryAfterMs: null };
  return { kind: "failed", error: cause as AttemptError };
}

test("has a row for every cause of a failed attempt, and for a status", () => {
  expect(causes.map(({ cause }) => cause).toSorted()).toEqual(
    ["410", "503", ...attemptErrors].toSorted(),
  );
});

describe.each(causes)("cause $cause", ({ cause, attempt }) => {
  const result = resultOf(cause);
  const decision = decide(result, 1, retry, now, middle);

  test(attempt === "counts" ? "uses an entry of the schedule" : "never makes a dead letter", () => {
    // The name that groups of deliveries show.
    expect(outcomeOf(result)).toBe(cause);
    const last = decide(result, retry.schedule.length, retry, now, middle);
    if (cause === "410") {
      expect([decision.kind, last.kind]).toEqual(["stop", "stop"]);
      // Without `spares`, stores count it.
      expect(settledBy(decision as SettlingDecision, now)).toEqual({ to: "waiting", nextAt: now });
    } else if (cause === "aborted")
      expect([decision.kind, last.kind]).toEqual(["interrupted", "interrupted"]);
    else if (attempt === "free")
      expect([decision, last]).toMatchObject([
        { kind: "retry", spares: true },
        { kind: "retry", spares: true },
      ]);
    else {
      expect(decision).toEqual({ kind: "retry", at: now + 5_000, pauseUntil: null });
      expect(last.kind).toBe("dead");
    }
  });
});

test("advises to remember ids for longer than the default schedule takes", () => {
  const hours = retry.schedule.reduce((sum, wait) => sum + wait, 0) / 3_600_000;
  expect(page).toContain(
    `${retry.schedule.length === 10 ? "ten" : retry.schedule.length} attempts in ${Math.round(hours)} hours`,
  );
  expect(page).toContain("Remember ids for four days");
  expect(hours * (1 + retry.jitter)).toBeLessThan(4 * 24);
  expect(hours).toBeGreaterThan(3 * 24);
});

test("names the states of deliveries", () => {
  const [diagram = ""] = codeBlocks(page, "mermaid");
  const named = [...diagram.matchAll(/^ {2}(\w+) -->|--> (\w+)/gm)].map(
    ([, from, to]) => from ?? to,
  );
  expect([...new Set(named)].toSorted()).toEqual([...deliveryStates].toSorted());
});

test("names the numbers of the breaker", () => {
  const url = routeUrlSchema.parse({ url: "https://crm.example/hook" });
  const queue = queueDestinationSchema.parse({ queue: "events", redis: "redis://redis.example" });
  expect([url.breaker, queue.breaker]).toEqual([
    { failures: 10, pause: 5_000, longest: 300_000 },
    { failures: 10, pause: 5_000, longest: 30_000 },
  ]);
  expect(page).toContain("open after 10 failures in a row");
  expect(page).toContain(
    "half-open after 5 s; the pause doubles up to 5 min, for a queue or stream up to 30 s",
  );
  const { concurrency, timeout } = url;
  expect([concurrency, queue.concurrency, timeout, queue.timeout]).toEqual([16, 64, 15_000, 5_000]);
  expect(page).toMatch(/^\| `concurrency` \|.*\| 16; queue or stream: 64 \|$/m);
  expect(page).toMatch(/^\| `timeout` \|.*\| 15 s; queue or stream: 5 s \|$/m);
});
