import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { openSqliteStore } from "../../../src/store/sqlite/open.ts";
import { dueDeliveries } from "../../contract/one-store.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { auditFile } from "../../harness/audit-file.ts";

const minute = 60_000;
const rules = rulesFor([{ name: "all", order: "none" }], { unknown: "forward" });
const quiet = { committed: () => {}, failed: () => {} };

type Step =
  | { readonly do: "event"; readonly status: string; readonly of: number }
  | { readonly do: "attempt"; readonly to: "delivered" | "dead" | "later"; readonly which: number }
  | { readonly do: "wait"; readonly ms: number }
  /** Lets the writes so far be committed. */
  | { readonly do: "commit" }
  | { readonly do: "kill" };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("event"), status: fc.constantFrom("sent", "read", "failed"), of: fc.nat(4) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("attempt"), to: fc.constantFrom("delivered", "dead", "later"), which: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("wait"), ms: fc.nat(3 * minute) }) },
  { weight: 3, arbitrary: fc.constant({ do: "commit" }) },
  { weight: 2, arbitrary: fc.constant({ do: "kill" }) },
) as fc.Arbitrary<Step>;

test("the history equals the rows after random operations and kills", async () => {
  const folder = mkdtempSync(join(tmpdir(), "history-kills-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  let files = 0;
  let kills = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
      let now = start;
      let path = join(folder, `${++files}.db`);
      let store = openSqliteStore(path, rules, quiet);
      let writes: Promise<unknown>[] = [];
      /** Events with an attempt that is not committed: the dispatcher makes one at a time. */
      const busy = new Set<number>();
      const abandoned: (typeof store)[] = [];
      const acknowledged = new Set<number>();

      function attempt(to: string, which: number): void {
        const due = store.look(dueDeliveries({ route: "all", from: 0, now, limit: 100 })).filter(({ event }) => !busy.has(event));
        const delivery = due[which % Math.max(1, due.length)];
        if (delivery === undefined) return;
        const { event, receivedAt } = delivery;
        const status = to === "delivered" ? 200 : 503;
        const result = { kind: "answered", status, retryAfterMs: null } as const;
        const settled =
          to === "later"
            ? ({ to: "waiting", nextAt: now } as const)
            : to === "dead"
              ? ({ to, reason: "no" } as const)
              : ({ to: "delivered" } as const);
        const made = { number: delivery.attempts + 1, at: now, tookMs: 3, result, response: null };
        busy.add(event);
        writes.push(store.settle({ route: "all", event, delivery, receivedAt, attempt: made, settled, at: now }));
      }

      for (const one of [...steps, { do: "kill" } as const]) {
        if (one.do === "event") {
          const accepting = store.accept(anEvent({ wamid: `w${one.of}`, status: one.status, receivedAt: now }));
          writes.push(accepting.then((outcome) => outcome.result === "accepted" && acknowledged.add(outcome.seq)));
        } else if (one.do === "attempt") attempt(one.to, one.which);
        else if (one.do === "wait") now += one.ms;
        else if (one.do === "commit") {
          await Promise.all(writes);
          writes = [];
          busy.clear();
        } else {
          // The files as a killed process leaves them: what is not committed is lost.
          const next = join(folder, `${++files}.db`);
          for (const end of ["", "-wal"]) if (existsSync(path + end)) copyFileSync(path + end, next + end);
          const known = [...acknowledged];
          abandoned.push(store);
          kills += 1;
          await Promise.allSettled(writes);
          writes = [];
          busy.clear();
          path = next;
          store = openSqliteStore(path, rules, quiet);
          acknowledged.clear();
          for (const seq of known) {
            acknowledged.add(seq);
            expect(store.read.events.get(seq)).not.toBeNull();
          }
        }
      }
      const report = auditFile(path, { now });
      expect(report.offenders).toEqual([]);
      await Promise.all([...abandoned, store].map((each) => each.close()));
    }),
    { numRuns: 12 },
  );
  expect(kills).toBeGreaterThan(10);
});
