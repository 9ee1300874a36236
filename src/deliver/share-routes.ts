import type { LeaseView } from "../model/route-lease.ts";

/**
 * Which worker should have which route, as even as their settings and the present leases allow. All workers compute the same
 * from the same view, and each does its own part.
 */
export function shareRoutes({ workers, leases }: LeaseView): ReadonlyMap<string, string> {
  const routesOf = new Map<string, Set<string>>([...workers.keys()].toSorted().map((worker) => [worker, new Set()]));
  const wanted = new Map([...workers].map(([worker, routes]) => [worker, new Set(routes)]));
  const free: string[] = [];
  for (const route of [...new Set([...workers.values()].flat())].toSorted()) {
    const holder = leases.get(route)?.holder ?? "";
    if (wanted.get(holder)?.has(route) === true) routesOf.get(holder)?.add(route);
    else free.push(route);
  }

  /** Of those whose settings have the route, the one with the fewest. */
  function poorest(route: string): string | null {
    let least: string | null = null;
    for (const [worker, routes] of routesOf)
      if (wanted.get(worker)?.has(route) === true && (least === null || routes.size < sizeOf(least))) least = worker;
    return least;
  }
  const sizeOf = (worker: string): number => routesOf.get(worker)?.size ?? 0;

  for (const route of free) routesOf.get(poorest(route) ?? "")?.add(route);
  // A move makes the larger share smaller and the smaller one not larger than that, so the moves end.
  for (let hasMoved = true; hasMoved; ) {
    hasMoved = false;
    const richest = [...routesOf].sort(([, one], [, other]) => other.size - one.size);
    for (const [, routes] of richest) {
      const route = [...routes].find((each) => sizeOf(poorest(each) ?? "") <= routes.size - 2 && poorest(each) !== null);
      if (route === undefined) continue;
      routes.delete(route);
      routesOf.get(poorest(route) ?? "")?.add(route);
      hasMoved = true;
      break;
    }
  }
  return new Map([...routesOf].flatMap(([worker, routes]) => [...routes].map((route) => [route, worker] as const)));
}
