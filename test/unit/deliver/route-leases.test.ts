import { expect, test } from "vitest";
import { createRouteLeases } from "../../../src/deliver/route-leases.ts";
import { type Lease, type LeaseStore, leaseTimes } from "../../../src/model/route-lease.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

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
