// Slow on version 14, because a second server starts for it.
import { expect, test } from "vitest";
import type { ReceivedEvent } from "../../../src/model/event.ts";
import type { SettledPoll } from "../../../src/model/poll.ts";
import { createCommands } from "../../../src/store/create-store.ts";
import { connect } from "../../../src/store/postgres/connect.ts";
import { createPostgresRunner } from "../../../src/store/postgres/runner.ts";
import type { Work } from "../../../src/store/sql/ops.ts";
import { due, loadDeliveries, nextDue } from "../../../src/store/work/attempts.ts";
import { beginPass, endPass, noteReads } from "../../../src/store/work/hydration-passes.ts";
import { beat, handBack, readLeases, takeLeases } from "../../../src/store/work/leases.ts";
import { claimPolls, settlePolls } from "../../../src/store/work/polls.ts";
import { createRetention } from "../../../src/store/work/retention.ts";
import { addServiceCalls, moveCursor, notesOf } from "../../../src/store/work/state-rows.ts";
import { type Commands, createShared, settlementOf } from "../../contract/one-store.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import type { PostgresVersion } from "../../setup/postgres.ts";

const rules = rulesFor([{ name: "crm" }, { name: "ours", match: { tracked: true } }], {
  parkFor: 60_000,
});
const day = 86_400_000;
const keep = {
  events: 30 * day,
  ignored: day,
  deliveries: 30 * day,
  messages: 60 * day,
  history: 30 * day,
};
/** A statement that goes through all rows of a table, or puts them in order itself. */
const dear = /Seq Scan|Sort|Hash Join|Merge Join|Bitmap|Materialize|Join Filter/;

const sentMessage = (wamid: string) =>
  ({
    type: "message",
    id: null,
    wamid,
    status: "pending",
    conversationId: null,
    reference: undefined,
    metadata: undefined,
  }) as const;
const sentRun = (runId: string) =>
  ({ type: "run", runId, reference: runId, metadata: undefined }) as const;

planTests(18, []);
planTests(14, ["slow"]);

function planTests(version: PostgresVersion, tags: string[]): void {
  test(`every statement of commands goes by index and in the order of its batch on PostgreSQL ${version}`, {
    tags,
  }, async () => {
    await using shared = await createShared(version);
    const { session, plans, run, [Symbol.asyncDispose]: end } = await openExplained(shared.url);
    await using _ = { [Symbol.asyncDispose]: end };
    const commands = createCommands({ rules, writer: "here", held: () => null });
    // A connection keeps a plan, so none may rest on how little there was when it was made.
    for (const [round, count] of [3, 30, 300].entries()) {
      await session.script("VACUUM ANALYZE");
      const events = Array.from({ length: count }, (_, n) =>
        anEvent({ wamid: `wamid.${round}.${n >> 1}`, receivedAt: start }),
      );
      await run(() => commands.accept.work(events.map((event) => ({ event, proxyRoute: null }))));
      await lease(run);
      const { places } = await run(() => due({ route: "crm", from: 0, now: start, limit: 10_000 }));
      expect(await run(() => nextDue(["crm", "none"], start))).toEqual(
        new Map([
          ["crm", start],
          ["none", null],
        ]),
      );
      const found = await run(() => loadDeliveries("crm", places));
      expect(found.length).toBeGreaterThan(0);
      await run(() =>
        commands.settle.work(
          found.map((one, place) =>
            settlementOf(one, place % 2 === 0 ? "waiting" : "delivered", start),
          ),
        ),
      );
      const registrations = Array.from({ length: count >> 2 }, (_, n) => ({
        account: "main",
        wamid: `wamid.${round}.${n}`,
        id: `msg_${n}`,
      }));
      await run(() => commands.register.work([{ registrations, at: start }]));
      const keys = Array.from({ length: count }, (_, n) => ({
        account: "main",
        kind: "message" as const,
        key: `${round}-${n}`,
      }));
      const claim = { fingerprint: "f", resend: 0, about: "", at: start };
      await run(() => commands.beginSend.work(keys.map((key) => ({ key, claim }))));
      await run(() =>
        commands.settleSend.work(
          keys.map((key, n) => ({
            key,
            ended: {
              end: "done",
              at: start,
              answer: {},
              sent: n % 2 === 0 ? sentMessage(key.key) : sentRun(key.key),
            },
          })),
        ),
      );
      await run(() => commands.writes.forgetSends(start + 1, count >> 1));
      await pollAndHydrate(commands, run, count);
      await run(() => moveCursor(`crm-${round}`, count, start));
      await run(() => commands.holdLease("parking", 1_000));
      await run(() => commands.endLeftExchanges(start, "stopped", 10));
      await run(() => commands.writes.releaseParked(start, 10));
      await run(() => commands.writes.expireParked(start + 60_000, 10));
      const purge = createRetention(run);
      // Some of the events are old by then, and those that are still due stay.
      for (let steps = 0, done = false; !done; steps += 1) {
        expect(steps).toBeLessThan(200);
        ({ done } = await purge(start + 90 * day, keep, 20));
      }
    }
    expect(plans.length).toBeGreaterThan(30);
    for (const { text, plan } of plans) {
      expect(plan, text).not.toMatch(dear);
      if (/^(?:UPDATE|DELETE)/.test(text))
        expect(plan, text).toMatch(/Function Scan.*TID Cond|Index Scan using state_pkey/s);
    }
  });
}

/** A worker takes routes, reads what is stored of them, and gives them back. */
async function lease(run: <T>(make: () => Work<T>) => Promise<T>): Promise<void> {
  const routes = ["crm", "ours"];
  await run(() => beat("worker", start, routes));
  await run(() => readLeases(start, 1_000));
  const taken = await run(() => takeLeases(routes, "worker", start, 1_000));
  await run(() => notesOf(routes));
  for (const [route, lease] of taken) await run(() => handBack(route, lease));
}

/** Polls end in each way, and a hydration pass settles truncated events in both. */
async function pollAndHydrate(
  commands: Commands,
  run: <T>(make: () => Work<T>) => Promise<T>,
  count: number,
): Promise<void> {
  const accept = (events: readonly ReceivedEvent[]) =>
    run(() => commands.accept.work(events.map((event) => ({ event, proxyRoute: null }))));
  const claim = {
    account: "main",
    now: start,
    dueBy: start,
    after: 0,
    limit: count,
    leaseMs: 1_000,
  };
  const polls = await run(() => claimPolls(claim));
  const unpolled = { rank: 1, polls: 1, failures: 0, misses: 0, polledAt: start };
  await run(() =>
    settlePolls(
      polls.map(({ message, until }, n): SettledPoll => {
        if (n % 3 === 0) return { message, until, end: "missing", at: start };
        return n % 3 === 1
          ? { message, until, end: "over" }
          : { message, until, end: "again", nextAt: start + 1, ...unpolled };
      }),
    ),
  );
  await accept(
    polls.map(({ wamid }) => anEvent({ wamid, status: "delivered", receivedAt: start })),
  );
  const data = { truncated: true, size: 300_000 };
  const truncated = Array.from({ length: count }, (_, n) =>
    anEvent({ receivedAt: start, data: { ...data, id: n % 2 === 0 ? "one" : null } }),
  );
  await accept([
    ...truncated,
    anEvent({ event: "automation.completed", receivedAt: start, data: { ...data, id: "unknown" } }),
  ]);
  const pass = await run(() => beginPass("main", start));
  if (pass === null) throw new Error("nothing waits");
  await run(() =>
    noteReads(
      pass,
      polls.length,
      polls.map(({ message }) => ({ message, at: start })),
      start,
    ),
  );
  await run(() =>
    commands.writes.settleCovered(
      pass,
      { reason: null, unknown: 0, receivedBy: start },
      start,
      count,
    ),
  );
  await run(() => endPass(pass));
  await run(() =>
    addServiceCalls([{ account: "main", day: start, calls: { polls: 1, others: 1 } }]),
  );
}

/** Runs commands on a hot connection, and keeps the plan of each of their statements. */
async function openExplained(url: string) {
  const session = await connect({ url, schema: "relay" }, "hot");
  const plans: { readonly text: string; readonly plan: string }[] = [];
  const { execute, written } = createPostgresRunner({
    async query(statement) {
      const { text, values } = statement;
      const planned = await session.query({ name: "", text: `EXPLAIN ${text}`, values });
      plans.push({ text, plan: planned.rows.map((row) => row["QUERY PLAN"]).join("\n") });
      return session.query(statement);
    },
  });
  return {
    session,
    plans,
    async run<T>(make: () => Work<T>): Promise<T> {
      await session.script("BEGIN");
      const result = await execute(make());
      await written();
      await session.script("COMMIT");
      return result;
    },
    [Symbol.asyncDispose]: () => session.end(),
  };
}
