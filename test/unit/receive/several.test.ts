import { expect, test } from "vitest";
import type { QuarantinedBody, ReceivedEvent } from "../../../src/model/event.ts";
import type { ReceivedItem } from "../../../src/receive/read-items.ts";
import { createSeveral } from "../../../src/receive/several.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";

const item = (id: number): ReceivedItem => ({ kind: "event", event: { envelope: { id: String(id) } } as ReceivedEvent });
const read = (count: number) => () => Array.from({ length: count }, (_, id) => item(id));

function createStore(failsAt: number | null = null) {
  const stored = new Set<string>();
  let failing = failsAt;
  const several = createSeveral({
    async event({ envelope: { id } }) {
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
  expect(await several.take("wa", 1_000, read(250))).toMatchObject({ events: 250 - before, duplicates: before });
});

test("bounds the bytes that are not stored yet, of a source and in all, and always takes one request", async () => {
  const { several } = createStore();
  const mib = 1024 ** 2;
  const first = several.take("wa", 31 * mib, read(1));
  expect(several.take("wa", 2 * mib, read(1))).toBeNull();
  const other = several.take("other", 31 * mib, read(1));
  expect(several.take("third", 3 * mib, read(1))).toBeNull();
  expect(first).not.toBeNull();
  await Promise.all([first, other]);
  expect(await several.take("wa", 100 * mib, read(2))).toMatchObject({ events: 1, duplicates: 1 });
});
