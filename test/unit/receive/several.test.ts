import { expect, test } from "vitest";
import type { QuarantinedBody, ReceivedEvent } from "../../../src/model/event.ts";
import { createSeveral } from "../../../src/receive/several.ts";
import type { ReceivedItem } from "../../../src/receive/verify-request.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";

const item = (id: number, account: string, body: Buffer): ReceivedItem => ({
  kind: "event",
  event: { envelope: { id: String(id) }, account, body } as ReceivedEvent,
});
const read =
  (count: number, account = "main", bytes = 1) =>
  () => {
    const body = Buffer.alloc(bytes);
    return Array.from({ length: count }, (_, id) => item(id, account, body));
  };

/** `until`: no event is stored before. */
function createStore(failsAt: number | null = null, until: Promise<unknown> = Promise.resolve()) {
  const stored = new Set<string>();
  let failing = failsAt;
  const several = createSeveral({
    async event({ envelope: { id } }) {
      await until;
      if (Number(id) === failing) throw new StoreUnavailable("cannot store now");
      if (stored.has(id)) return { result: "duplicate" };
      stored.add(id);
      return { result: "accepted" };
    },
    quarantine: async (_: QuarantinedBody) => ({ result: "quarantined" }),
    quarantined() {},
  });
  return {
    several,
    stored,
    recover() {
      failing = null;
    },
  };
}

test("fails when one item cannot be stored; what was stored stays, and the repeat adds the rest", async () => {
  const { several, stored, recover } = createStore(150);
  await expect(several.take("wa", 1_000, read(250))).rejects.toBeInstanceOf(StoreUnavailable);
  expect(stored.size).toBeGreaterThan(100);
  expect(stored).not.toContain("150");
  recover();
  const before = stored.size;
  expect(await several.take("wa", 1_000, read(250))).toMatchObject({
    events: 250 - before,
    duplicates: before,
  });
});

test("another request waits for one slice of a large one at most", async () => {
  const { several, stored } = createStore();
  const many = several.take("wa", 1_000, read(1_000));
  const other = several.take("wa", 1_000, () => [item(5_000, "main", Buffer.alloc(1))]);
  await Promise.all([many, other]);
  expect([...stored].indexOf("5000")).toBeLessThanOrEqual(250);
  expect(stored.size).toBe(1_001);
});

const mib = 1024 ** 2;

test("bounds the bytes that are not stored yet, of a source and in all, and always takes one request", async () => {
  const { several } = createStore();
  const first = several.take("wa", 31 * mib, read(1));
  expect(await several.take("wa", 2 * mib, read(1))).toBeNull();
  const other = several.take("other", 31 * mib, read(1));
  expect(await several.take("third", 3 * mib, read(1))).toBeNull();
  expect(await Promise.all([first, other])).not.toContain(null);
  expect(await several.take("wa", 100 * mib, read(2))).toMatchObject({ events: 1, duplicates: 1 });
});

test.each([
  { what: "items", most: 19_000, bytes: 1, more: 2_000 },
  { what: "bytes", most: 31, bytes: mib, more: 2 },
])(
  "bounds the $what that are not stored yet, of an account and in all",
  async ({ most, bytes, more }) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { several } = createStore(null, promise);
    const taken = [
      several.take("wa", 1_000, read(most, "main", bytes)),
      several.take("wa", 1_000, read(most, "other", bytes)),
    ];
    // Of both accounts, from any source.
    expect(await several.take("two", 1_000, read(more, "main", bytes))).toBeNull();
    expect(await several.take("two", 1_000, read(more, "other", bytes))).toBeNull();
    expect(await several.take("two", 1_000, read(2 * more, "third", bytes))).toBeNull();
    resolve();
    expect(await Promise.all(taken)).not.toContain(null);
    expect(await several.take("two", 1_000, read(more, "main", bytes))).not.toBeNull();
  },
);
