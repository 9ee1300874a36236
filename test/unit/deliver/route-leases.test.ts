import { expect, test } from "vitest";
import { createRouteLeases } from "../../../src/deliver/route-leases.ts";
import { type Lease, type LeaseStore, leaseTimes } from "../../../src/model/route-lease.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

test("gives a lease back later when the store was unavailable then", async () => {
  const clock = createManualClock();
  const routes = ["a", "b"];
  const stored = new Map<string, Lease>();
  const workers = new Map([["one", routes]]);
  let isAvailable = true;
  const store: LeaseStore = {
    beat: async () => ({ workers: new Map(workers), leases: new Map(stored) }),
    async take(holder, taken) {
      for (const route of taken) stored.set(route, { holder, epoch: 1 });
      return new Map(taken.map((route) => [route, { holder, epoch: 1 }]));
    },
    async handBack(leases) {
      if (!isAvailable) throw new Error("unavailable");
      for (const [route, lease] of leases) stored.set(route, { ...lease, holder: "" });
    },
    leave: async () => {},
  };
  const held = new Map<string, Lease>();
  const leases = createRouteLeases(
    { begin() {}, async end() {} },
    { worker: "one", store, clock, elapsed: clock.now, held, failed: () => {} },
  );
  const beat = () => clock.advance(leaseTimes.beatMs);
  leases.want(routes);
  await beat();
  expect([...held.keys()]).toEqual(routes);

  workers.set("two", routes);
  isAvailable = false;
  await beat();
  expect(held.size).toBe(1);
  expect([...stored.values()].map(({ holder }) => holder)).toEqual(["one", "one"]);
  isAvailable = true;
  await beat();
  expect([...stored.values()].map(({ holder }) => holder).sort()).toEqual(["", "one"]);
  expect(leases.maySend([...held.keys()][0] as string)).toBe(true);
  await leases.close(0);
});

test.each(["its lease is lost", "the worker ends"])(
  "leaves no lane behind where %s before the lane begins",
  async (when) => {
    const clock = createManualClock();
    const { promise: notes, resolve: read } = Promise.withResolvers<void>();
    const lanes = new Set<string>();
    const held = new Map<string, Lease>();
    const store: LeaseStore = {
      beat: async () => ({ workers: new Map([["one", ["a"]]]), leases: new Map() }),
      take: async (holder) => new Map([["a", { holder, epoch: 1 }]]),
      handBack: async () => {},
      leave: async () => {},
    };
    const leases = createRouteLeases(
      {
        begin: (route) => notes.then(() => void lanes.add(route)),
        end: async (route) => void lanes.delete(route),
      },
      { worker: "one", store, clock, elapsed: clock.now, held, failed: () => {} },
    );
    leases.want(["a"]);
    await settled();
    expect(held.size).toBe(1);
    if (when === "its lease is lost") await clock.advance(leaseTimes.deadlineMs);
    const closed = when === "the worker ends" ? leases.close(10_000) : null;
    await settled();
    read();
    await settled();
    expect([...held.keys(), ...lanes]).toEqual([]);
    await (closed ?? leases.close(0));
  },
);
