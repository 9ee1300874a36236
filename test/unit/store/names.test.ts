import { expect, test } from "vitest";
import { openSqliteSubject } from "../../contract/sqlite-subject.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import type { ContractStore } from "../../contract/store-port.ts";
import { rowsOf } from "../../harness/store-rows.ts";

const keep = { events: 1_000, ignored: 1_000, deliveries: 1_000, messages: 1_000, history: 10 ** 11 };

async function purgeAll(store: ContractStore, now: number): Promise<void> {
  for (let steps = 0; steps < 10_000; steps += 1) if ((await store.purge(now, keep, 500)).done) return;
  throw new Error("retention never came to an end");
}

test("invented event kinds are gone with their events, and those in use stay what they are", async () => {
  const subject = await openSqliteSubject(rulesFor([]));
  try {
    const { store, path } = subject;
    const kinds = () => rowsOf<{ name: string }>(path, "SELECT name FROM names WHERE kind = 'kind' ORDER BY id").map(({ name }) => name);
    const invented = Array.from({ length: 3_000 }, (_, n) => `invented.${n}.${"x".repeat(200)}`);
    await Promise.all(invented.map((event) => store.accept(anEvent({ event }))));
    expect(kinds().length).toBe(3_000);
    // Still of today: an event of a rare kind, and one of a usual one.
    const later = start + 100_000;
    const rare = await store.accept(anEvent({ event: invented[2_500] as string, receivedAt: later }));
    const usual = await store.accept(anEvent({ event: "message.status", receivedAt: later }));
    await purgeAll(store, later);
    const left = kinds();
    expect(left.length).toBeLessThanOrEqual(1_024 + 2);
    expect(left).toContain(invented[2_500]);
    expect(await store.event(rare.seq)).toMatchObject({ event: invented[2_500] });
    expect(await store.event(usual.seq)).toMatchObject({ event: "message.status" });

    // One that was removed comes again, in the process that remembered it and after a restart.
    const again = await store.accept(anEvent({ event: invented[2_000] as string, receivedAt: later }));
    expect(await store.event(again.seq)).toMatchObject({ event: invented[2_000] });
    const reopened = await subject.reopen();
    expect(await reopened.event(again.seq)).toMatchObject({ event: invented[2_000] });
    expect((await reopened.audit(later)).balanced).toBe(true);

    // No number is ever given to another kind.
    const numbers = rowsOf<{ id: number }>(path, "SELECT id FROM names WHERE name IN (?, ?)", invented[2_000], "message.status");
    expect(numbers.every(({ id }) => id > 3_000)).toBe(true);
  } finally {
    await subject.end();
  }
});

test("retention removes kinds in small steps", async () => {
  const subject = await openSqliteSubject(rulesFor([]));
  try {
    const { store, path } = subject;
    const count = () => rowsOf<{ n: number }>(path, "SELECT count(*) AS n FROM names")[0]?.n ?? 0;
    await Promise.all(Array.from({ length: 1_600 }, (_, n) => store.accept(anEvent({ event: `kind.${n}` }))));
    await store.accept(anEvent({ event: "message.status", receivedAt: start + 100_000 }));
    let before = count();
    for (let steps = 0; steps < 10_000; steps += 1) {
      const { done } = await store.purge(start + 100_000, keep, 20);
      expect(before - count()).toBeLessThanOrEqual(20);
      before = count();
      if (done) break;
    }
    expect(before).toBeLessThanOrEqual(1_030);
  } finally {
    await subject.end();
  }
});
