// Slow on version 14, because a second server starts for it.
import { expect, test } from "vitest";
import { createCommands } from "../../../src/store/commands.ts";
import { connect } from "../../../src/store/postgres/connect.ts";
import { createPostgresRunner } from "../../../src/store/postgres/runner.ts";
import type { Work } from "../../../src/store/sql/ops.ts";
import { dueDeliveries } from "../../../src/store/work/due.ts";
import { createShared, settlementOf } from "../../contract/one-store.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import type { PostgresVersion } from "../../setup/postgres.ts";

const rules = rulesFor([{ name: "crm" }, { name: "ours", match: { tracked: true } }], { parkFor: 60_000 });
/** A statement that goes through all rows of a table, or puts them in order itself. */
const dear = /Seq Scan|Sort|Hash Join|Merge Join|Bitmap|Materialize|Join Filter/;

planTests(18, []);
planTests(14, ["slow"]);

function planTests(version: PostgresVersion, tags: string[]): void {
  test(`every statement of the hot path and of parking goes by index and in the order of its batch on PostgreSQL ${version}`, {
    tags,
  }, async () => {
    await using shared = await createShared(version);
    const { session, plans, run, [Symbol.asyncDispose]: end } = await openExplained(shared.url);
    await using _ = { [Symbol.asyncDispose]: end };
    const commands = createCommands({ rules, writer: "here", held: () => null });
    // A connection keeps a plan, so none may rest on how little there was when it was made.
    for (const [round, count] of [3, 30, 300].entries()) {
      await session.script("VACUUM ANALYZE");
      const events = Array.from({ length: count }, (_, n) => anEvent({ wamid: `wamid.${round}.${n >> 1}`, receivedAt: start }));
      await run(() => commands.accept.work(events.map((event) => ({ event, proxyRoute: null }))));
      const due = await run(() => dueDeliveries({ route: "crm", from: 0, now: start, limit: count }));
      expect(due.length).toBeGreaterThan(0);
      await run(() => commands.settle.work(due.map((one, place) => settlementOf(one, place % 2 === 0 ? "waiting" : "delivered", start))));
      const registrations = Array.from({ length: count >> 2 }, (_, n) => ({
        account: "main",
        wamid: `wamid.${round}.${n}`,
        id: `msg_${n}`,
      }));
      await run(() => commands.register.work([{ registrations, at: start }]));
      await run(() => commands.releaseParked(start, 10));
      await run(() => commands.expireParked(start + 60_000, 10));
    }
    expect(plans.length).toBeGreaterThan(30);
    for (const { text, plan } of plans) {
      expect(plan, text).not.toMatch(dear);
      if (/^(?:UPDATE|DELETE)/.test(text)) expect(plan, text).toMatch(/Function Scan.*TID Cond/s);
    }
  });
}

/** Runs commands on a hot connection, and keeps the plan of each of their statements. */
async function openExplained(url: string) {
  const session = await connect({ url, schema: "relay" }, "hot");
  const plans: { readonly text: string; readonly plan: string }[] = [];
  const execute = createPostgresRunner({
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
      await session.script("COMMIT");
      return result;
    },
    [Symbol.asyncDispose]: () => session.end(),
  };
}
