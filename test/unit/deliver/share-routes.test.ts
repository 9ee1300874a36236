import fc from "fast-check";
import { expect, test } from "vitest";
import { shareRoutes } from "../../../src/deliver/route-leases.ts";

const names = ["r1", "r2", "r3", "r4", "r5", "r6", "r7"];
const workerNames = ["w1", "w2", "w3", "w4"];

const views = fc.record({
  workers: fc.dictionary(fc.constantFrom(...workerNames), fc.subarray(names)),
  holders: fc.dictionary(fc.constantFrom(...names), fc.constantFrom(...workerNames, "dead", "")),
});

const viewOf = ({
  workers,
  holders,
}: {
  workers: Record<string, string[]>;
  holders: Record<string, string>;
}) => ({
  workers: new Map(Object.entries(workers)),
  leases: new Map(Object.entries(holders).map(([route, holder]) => [route, { holder, epoch: 1 }])),
});

test("gives each route to a worker whose settings have it, and no move makes the shares more even", () => {
  fc.assert(
    fc.property(views, (drawn) => {
      const view = viewOf(drawn);
      const share = shareRoutes(view);
      const size = (worker: string) =>
        [...share.values()].filter((holder) => holder === worker).length;
      for (const route of names) {
        const takers = [...view.workers]
          .filter(([, routes]) => routes.includes(route))
          .map(([worker]) => worker);
        const holder = share.get(route);
        if (takers.length === 0) expect(holder).toBeUndefined();
        else {
          expect(takers).toContain(holder);
          for (const taker of takers)
            expect(size(holder as string) - size(taker)).toBeLessThanOrEqual(1);
        }
      }
    }),
  );
});

test("changes nothing once it is in effect", () => {
  fc.assert(
    fc.property(views, (drawn) => {
      const view = viewOf(drawn);
      const share = shareRoutes(view);
      const leases = new Map([...share].map(([route, holder]) => [route, { holder, epoch: 2 }]));
      expect(new Map([...shareRoutes({ workers: view.workers, leases })].sort())).toEqual(
        new Map([...share].sort()),
      );
    }),
  );
});
