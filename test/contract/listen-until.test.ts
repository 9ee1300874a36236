import { expect, test } from "vitest";
import { createReading } from "../../src/store/read/reading.ts";
import { openPostgres, openSqlite } from "./one-store.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

test.each([
  ["SQLite", openSqlite],
  ["PostgreSQL", openPostgres(18)],
] as const)(
  "listeners on %s read no event after the seq up to which all have appeared",
  async (_, open) => {
    await using opened = await open(rulesFor([]));
    for (let n = 1; n <= 5; n += 1)
      await opened.accept([anEvent({ wamid: `w${n}`, receivedAt: start + n })]);
    let until = 3;
    const { listen } = createReading({ read: opened.read, until: async () => until });
    const hear = async (from: number) => {
      const page = await listen.page(from, { row: () => true, event: null });
      return page(({ events, through, missing, atEnd }) => ({
        seqs: events.map(({ seq }) => seq),
        through,
        missing,
        atEnd,
      }));
    };
    expect(await hear(0)).toEqual({ seqs: [1, 2, 3], through: 3, missing: null, atEnd: true });
    expect(await hear(3)).toEqual({ seqs: [], through: 3, missing: null, atEnd: true });
    expect(await listen.ends()).toEqual({ oldest: 1, newest: 3, oldestAt: start + 1 });
    expect(await listen.seqBefore(start + 5)).toBe(3);
    until = 5;
    expect(await hear(3)).toEqual({ seqs: [4, 5], through: 5, missing: null, atEnd: true });
    expect(await listen.seqBefore(start + 5)).toBe(4);
    until = 0;
    expect(await hear(0)).toEqual({ seqs: [], through: 0, missing: null, atEnd: true });
    expect(await listen.ends()).toEqual({ oldest: 0, newest: 0, oldestAt: null });
  },
);

test("a page of listeners ends with the body that fills it, and goes on after it", async () => {
  await using opened = await openSqlite(rulesFor([]));
  const large = (n: number) => ({
    ...anEvent({ wamid: `w${n}` }),
    body: Buffer.alloc(40 * 1024, n),
  });
  await opened.accept([1, 2, 3].map(large));
  const { listen } = createReading({ read: opened.read });
  const bodies = async (from: number) => {
    const page = await listen.page(from, { row: () => true, event: null });
    return page(({ events, through, atEnd }) => ({
      first: events.map((event) => event.content().body[0]),
      through,
      atEnd,
    }));
  };
  expect(await bodies(0)).toEqual({ first: [1, 2], through: 2, atEnd: false });
  expect(await bodies(2)).toEqual({ first: [3], through: 3, atEnd: true });
});
