import { expect, test } from "vitest";
import type { OpenSubject } from "./contract-store.ts";
import { accept, openWith } from "./contract-tools.ts";
import { anEvent, start, unreadable } from "./store-events.ts";

const keep = { events: 10, ignored: 10, deliveries: 10, messages: 10, history: 10 ** 11 };

export function secretUsesContract(open: OpenSubject): void {
  test("counts each verification once, duplicates separately, across a restart", async () => {
    const subject = await openWith(open, []);
    const again = anEvent({ secret: "old", receivedAt: start + 5 });
    const taken = { account: "main", wamid: "taken" };
    await subject.store.register([{ ...taken, reference: "first" }], start);
    await Promise.allSettled([
      ...Array.from({ length: 20 }, (_, n) =>
        subject.store.accept(anEvent({ secret: "new", receivedAt: start + 8 - (n % 3) })),
      ),
      subject.store.accept(again),
      // Fails all of its group, each of which is then stored alone.
      subject.store.register([{ ...taken, reference: "another" }], start),
      subject.store.accept(again),
      subject.store.accept(anEvent({ secret: "old", source: "flows", receivedAt: start + 1 })),
      subject.store.accept(anEvent({ secret: null })),
      subject.store.quarantine(unreadable(anEvent({ secret: "new", receivedAt: start + 9 }))),
    ]);
    const store = await subject.reopen();
    await store.accept({ ...again, secret: "new", receivedAt: start + 30 });
    const secretUses = [...(await store.secretUses())].sort((a, b) =>
      `${a.source} ${a.secret}`.localeCompare(`${b.source} ${b.secret}`),
    );
    expect(secretUses).toEqual([
      {
        source: "flows",
        secret: "old",
        events: 1,
        duplicates: 0,
        firstAt: start + 1,
        lastAt: start + 1,
      },
      {
        source: "main",
        secret: "new",
        events: 21,
        duplicates: 1,
        firstAt: start + 6,
        lastAt: start + 30,
      },
      {
        source: "main",
        secret: "old",
        events: 1,
        duplicates: 1,
        firstAt: start + 5,
        lastAt: start + 5,
      },
    ]);
  });

  test("retention lowers no count, and a clock set back moves no last use", async () => {
    const { store } = await openWith(open, []);
    for (let n = 0; n < 5; n += 1) await accept(store, { secret: "s", receivedAt: start + n });
    const [before] = await store.secretUses();
    for (let done = false; !done; ) ({ done } = await store.purge(start + 1_000, keep, 10));
    expect(await store.event(1)).toBeNull();
    expect(await store.secretUses()).toEqual([before]);
    await accept(store, { secret: "s", receivedAt: start - 50 });
    expect(await store.secretUses()).toEqual([{ ...before, events: 6, firstAt: start - 50 }]);
  });
}
