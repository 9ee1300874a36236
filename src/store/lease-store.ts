import type { LeaseStore } from "../model/route-lease.ts";
import type { Work } from "./sql/ops.ts";
import { beat, handBack, leave, readLeases, takeLeases } from "./work/leases.ts";
import { readNow } from "./work/state.ts";

/** `write`: runs a command in a transaction with others of its kind. */
export function createLeaseStore(write: <T>(make: () => Work<T>) => Promise<T>): LeaseStore {
  return {
    beat: (worker, routes, deadAfterMs) =>
      write(function* () {
        const now = yield* readNow();
        yield* beat(worker, now, routes);
        return yield* readLeases(now, deadAfterMs);
      }),
    take: (worker, routes, deadAfterMs) =>
      write(function* () {
        return yield* takeLeases(routes, worker, yield* readNow(), deadAfterMs);
      }),
    handBack: (leases) =>
      write(function* () {
        for (const [route, lease] of [...leases].toSorted(([one], [other]) => (one < other ? -1 : 1))) yield* handBack(route, lease);
      }),
    leave: (worker) => write(() => leave(worker)),
  };
}
