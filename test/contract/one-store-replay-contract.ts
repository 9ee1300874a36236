import { afterEach, beforeEach, expect, test } from "vitest";
import type { QueuedDelivery } from "../../src/model/delivery.ts";
import type {
  DueDelivery as Due,
  ReplayCursor,
  ReplayFilter,
  ReplayFound,
} from "../../src/store/port.ts";
import { deliveries, queue, queueState } from "../../src/store/schema/tables.ts";
import { findReplay } from "../../src/store/work/replay.ts";
import { type OneStore, type OpenStore, settlementOf } from "./one-store.ts";
import { anEvent, type EventParts, rulesFor, start, startOfWalk } from "./store-events.ts";

const rules = rulesFor([
  { name: "a" },
  { name: "b" },
  { name: "loose", order: "none", match: { statuses: ["read"] } },
]);

export function oneStoreReplayContract(open: OpenStore): void {
  let store: OneStore;
  beforeEach(async () => {
    store = await open(rules);
  });
  afterEach(() => store[Symbol.asyncDispose]());

  const accept = async (parts: EventParts = {}): Promise<number> =>
    (await store.accept([anEvent(parts)]))[0]?.seq ?? 0;
  const retry = async (event: number, route: string, at: number) =>
    (await store.send(({ retry }) => retry, [{ event, route, at }]))[0] ?? null;

  /** Settles the next attempt of a delivery that is due. */
  async function settle(
    route: string,
    event: number,
    to: "delivered" | "dead" | number,
    at = start,
  ): Promise<void> {
    const delivery = (await store.due(route, Number.MAX_SAFE_INTEGER - 1, 1_000)).find(
      (each) => each.event === event,
    );
    const more = typeof to === "number" ? { settled: { to: "waiting", nextAt: to } as const } : {};
    await store.settle([
      settlementOf(delivery as QueuedDelivery, typeof to === "number" ? "waiting" : to, at, more),
    ]);
  }

  async function replay(
    filter: ReplayFilter,
    at: number,
    afterStep?: (due: readonly Due[]) => Promise<void>,
  ) {
    const all = { replayed: 0, due: [] as Due[] };
    let place: ReplayCursor | null = startOfWalk(at);
    while (place !== null) {
      const step: ReplayFound = await store.read(findReplay(filter, place, at, 3));
      const [done = { replayed: 0, due: [] }] = await store.send(
        ({ replay }) => replay,
        [{ found: step.found, states: filter.states, at }],
      );
      all.replayed += done.replayed;
      all.due.push(...done.due);
      await afterStep?.(done.due);
      place = step.cursor;
    }
    return all;
  }
  const stateOf = async (route: string, event: number) => {
    const row = (await store.rows(queue)).find(
      (each) => each.route === route && each.event === event,
    );
    if (row !== undefined) return row.state === queueState.held ? "held" : "waiting";
    const settled = (await store.rows(deliveries)).find(
      (each) => each.route === route && each.event === event,
    );
    return settled === undefined ? null : settled.state === 0 ? "delivered" : "dead";
  };

  test("retries at once make one delivery", async () => {
    const seq = await accept({ wamid: "w" });
    await settle("a", seq, "dead");
    const again = { event: seq, route: "a", at: start };
    const outcomes = await store.send(({ retry }) => retry, [again, again, again]);
    expect(outcomes.map((outcome) => outcome?.state)).toEqual(["waiting", "waiting", "waiting"]);
    expect((await store.rows(queue)).filter(({ route }) => route === "a")).toMatchObject([
      { event: seq, replays: 1 },
    ]);
  });

  test("nothing retries what is parked", async () => {
    await using parking = await open(rulesFor([{ name: "a", match: { tracked: true } }]));
    await parking.accept([anEvent({ wamid: "w" })]);
    expect(await parking.send(({ retry }) => retry, [{ event: 1, route: "a", at: start }])).toEqual(
      [null],
    );
    expect(await parking.rows(queue)).toMatchObject([
      { state: queueState.parked, next_at: start + 60_000 },
    ]);
  });

  test.each([undefined, "503"])(
    "one pass over waiting deliveries retries each once, even if it fails again (cause %s)",
    async (cause) => {
      const seqs: number[] = [];
      for (let n = 0; n < 10; n += 1) seqs.push(await accept({ wamid: `w${n}`, status: "read" }));
      for (const seq of seqs) await settle("loose", seq, start + 60_000 + (seq % 3));
      const retried: number[] = [];
      await replay({ states: ["waiting"], route: "loose", cause }, start + 10, async (due) => {
        for (const { event } of due) {
          retried.push(event);
          await settle("loose", event, start + 120_000 + event);
        }
        if (retried.length > seqs.length) throw new Error(`retried ${retried}`);
      });
      expect(retried).toEqual(seqs);
    },
  );

  test("a replay takes each delivery of its filter once, in order per message", async () => {
    const seqs: number[] = [];
    for (let n = 0; n < 8; n += 1)
      seqs.push(
        await accept({
          wamid: `w${n % 2}`,
          status: "failed",
          errorCode: n % 4 < 2 ? "131026" : "x",
          receivedAt: start + n,
        }),
      );
    for (const seq of seqs) {
      await settle("a", seq, "dead");
      await settle("b", seq, "delivered");
    }
    const at = start + 100;
    expect(await replay({ states: ["dead"], route: "b" }, at)).toEqual({ replayed: 0, due: [] });
    const coded = await replay({ states: ["dead"], errorCode: "x" }, at);
    expect(coded.replayed).toBe(4);
    expect(coded.due).toMatchObject([2, 3].map((n) => ({ route: "a", event: seqs[n], at })));
    expect(await Promise.all(seqs.map((seq) => stateOf("a", seq)))).toEqual([
      ...["dead", "dead", "waiting", "waiting", "dead", "dead", "held", "held"],
    ]);
    expect((await replay({ states: ["dead"], from: start + 1, to: start + 5 }, at)).replayed).toBe(
      2,
    );
    const rest = await replay({ states: ["dead", "delivered"] }, at);
    expect(rest.replayed).toBe(2 + 8);
    expect(await replay({ states: ["dead", "delivered"] }, at)).toEqual({ replayed: 0, due: [] });
    expect((await store.due("b", at)).map(({ event }) => event)).toEqual(seqs.slice(0, 2));
  });

  test("a replay skips what settled after it began, except under a wrong clock", async () => {
    const [before, during, ahead] = [
      await accept({ wamid: "x" }),
      await accept({ wamid: "y" }),
      await accept({ wamid: "z" }),
    ];
    await settle("a", before, "dead", start + 10);
    await settle("a", during, "dead", start + 30);
    await settle("a", ahead, "dead", start + 1_000_000);
    const { found } = await store.read(
      findReplay({ states: ["dead"] }, startOfWalk(start + 20), start + 40, 10),
    );
    expect(found.map(({ event }) => event)).toEqual([before, ahead]);
  });

  test("what changed since it was found stays as it is", async () => {
    const seq = await accept({ wamid: "w" });
    await settle("a", seq, "dead");
    const { found } = await store.read(
      findReplay({ states: ["dead"] }, startOfWalk(start), start, 10),
    );
    await retry(seq, "a", start + 1);
    expect(
      await store.send(({ replay }) => replay, [{ found, states: ["dead"], at: start + 2 }]),
    ).toEqual([{ replayed: 0, due: [] }]);
    expect(await store.due("a", start + 1)).toMatchObject([{ event: seq, dueAt: start + 1 }]);
  });
}
