import { expect, onTestFinished, test } from "vitest";
import type { StoreReading } from "../../../src/store/read/reading.ts";
import { openForReading } from "../../../src/store/sqlite/file.ts";
import {
  createBrowsing,
  createInspecting,
  type FileInspecting,
} from "../../../src/store/sqlite/inspecting.ts";
import { openReader } from "../../../src/store/sqlite/reader.ts";
import { accept, delivered, settle } from "../../contract/contract-tools.ts";
import { openSqliteSubject } from "../../contract/sqlite-subject.ts";
import { rulesFor, start } from "../../contract/store-events.ts";

const order = { now: start, isRunning: true };

async function opened() {
  const subject = await openSqliteSubject(rulesFor([{ name: "all" }]));
  const inspecting = createInspecting(subject.path);
  onTestFinished(async () => {
    await inspecting.close();
    await subject.end();
  });
  return { subject, inspecting };
}

/** The reads of a file, with threads for those of more than `few` rows. */
function browsingOf(path: string) {
  const reader = openReader(path);
  const db = openForReading(path);
  onTestFinished(async () => {
    db.close();
    await reader.close();
  });
  return (page: FileInspecting["page"], few?: number) => createBrowsing(db, reader.read, page, few);
}

test("it sees what was committed just before, each time", async () => {
  const { subject, inspecting } = await opened();
  expect((await inspecting.stats()).dispositions.routed).toBe(0);
  for (let each = 1; each <= 3; each += 1) {
    const event = await accept(subject.store, { wamid: `w${each}` });
    await settle(subject.store, "all", event, delivered);
    expect(await inspecting.stats()).toEqual({
      dispositions: {
        routed: each,
        filtered: 0,
        ignored: 0,
        quarantined: 0,
        parked: 0,
        released: 0,
        unassigned: 0,
      },
      duplicates: 0,
      deliveries: { waiting: 0, held: 0, delivered: each, dead: 0 },
      attempts: { made: each, failed: 0 },
    });
  }
});

test("counts and audits at the same time, while events come in", async () => {
  const { subject, inspecting } = await opened();
  const looks: Promise<unknown>[] = [];
  for (let each = 0; each < 50; each += 1) {
    await accept(subject.store, { wamid: `w${each % 7}` });
    if (each % 10 === 0)
      looks.push(
        inspecting.stats(),
        inspecting.audit(order, () => {}),
      );
  }
  for (const look of await Promise.all(looks))
    expect((look as { balanced?: boolean }).balanced ?? true).toBe(true);
  expect(await inspecting.audit(order, () => {})).toMatchObject({
    balanced: true,
    events: { received: 50 },
    deliveries: { planned: 50, waiting: 7, held: 43 },
  });
});

test("closed while it looks: who waits is told at once, and who asks afterwards too", async () => {
  const { inspecting } = await opened();
  const looking = [inspecting.stats(), inspecting.audit(order, () => {})].map((look) =>
    look.then(
      () => "done",
      (error: Error) => error.name,
    ),
  );
  await inspecting.close();
  expect(await Promise.all(looking)).toEqual(["StoreUnavailable", "StoreUnavailable"]);
  await expect(inspecting.stats()).rejects.toMatchObject({ name: "StoreUnavailable" });
});

test("pages are the same in the thread, whatever they filter, and hold what was committed just before", async () => {
  const { subject, inspecting } = await opened();
  const browsing = browsingOf(subject.path);
  const aside = browsing(inspecting.page, 1);
  const here = browsing(() => {
    throw new Error("not in the thread");
  });
  expect(here.isAside?.()).toBe(false);
  const page = { after: 0, before: 1_000, limit: 10 };
  const pagesOf = async (read: StoreReading) => [
    await read.listEvents({ ...page, wamid: "w1" }),
    await read.listEvents({ ...page, disposition: "routed", source: "unknown" }),
    await read.listDeliveries({ state: "delivered", limit: 10 }),
    await read.groupDeliveries({}),
    await read.listMessages({ ...page, reference: "order-1", seen: true }),
    await read.listRuns({ ...page, runId: "run" }),
    await read.countDeliveries([1, 2, 3]),
    await read.lastHour(start),
    await read.backlog(),
    await read.quarantine(),
  ];
  for (let each = 1; each <= 3; each += 1) {
    const event = await accept(subject.store, { wamid: `w${each}` });
    await accept(subject.store, { runId: "run" });
    await subject.store.register(
      [{ account: "main", wamid: `w${each}`, reference: "order-1" }],
      start,
    );
    if (each > 1) await settle(subject.store, "all", event, delivered);
    expect(aside.isAside?.()).toBe(true);
    const [events, , , , messages, runs] = await pagesOf(aside);
    expect([events, messages, runs]).toMatchObject([[{ seq: 1 }], { length: each }, { length: 1 }]);
    expect(await pagesOf(aside)).toEqual(await pagesOf(here));
  }
});

test("a short backlog is counted here, and a long one in the thread", async () => {
  const { subject, inspecting } = await opened();
  let aside = 0;
  const page: FileInspecting["page"] = (name, ...asked) => {
    aside += 1;
    return inspecting.page(name, ...asked);
  };
  const browse = browsingOf(subject.path)(page, 2);
  const counts: [waiting: number, aside: number][] = [];
  const count = async () => counts.push([(await browse.backlog())[0]?.waiting ?? 0, aside]);

  const first = await accept(subject.store, { wamid: "w1" });
  await count();
  const second = await accept(subject.store, { wamid: "w2" });
  await count();
  await count();
  for (const event of [first, second]) await settle(subject.store, "all", event, delivered);
  await count();
  await count();
  expect(counts).toEqual([
    [1, 0],
    [2, 1],
    [2, 2],
    [0, 2],
    [0, 2],
  ]);
});

test("a page that fails leaves the thread able to answer the next", async () => {
  const { subject, inspecting } = await opened();
  await accept(subject.store, { wamid: "w1" });
  await expect(inspecting.page("listDeliveries", { limit: {} as number })).rejects.toMatchObject({
    name: "StoreUnavailable",
  });
  expect(await inspecting.page("listDeliveries", { limit: 10 })).toHaveLength(1);
});

test("a file that cannot be read is said, and the next question is a new attempt", async () => {
  const inspecting = createInspecting("/nowhere/relay.db");
  onTestFinished(() => inspecting.close());
  for (let each = 0; each < 2; each += 1) {
    await expect(inspecting.stats()).rejects.toMatchObject({
      name: "StoreUnavailable",
      message: expect.stringContaining("/nowhere/relay.db"),
    });
  }
});
