import type { EventSet } from "./events.ts";
import { makePool, type RequestPool } from "./load/pool.ts";
import { type RunSpec, runLoad } from "./load/run.ts";
import { answerParent } from "./process/child.ts";

/** The load generator's process: `prepare` makes the requests of an event set, `run` sends them. */
export type LoadOrder = { readonly prepare: EventSet } | { readonly run: RunSpec };

let pool: RequestPool | null = null;

answerParent(async (order) => {
  const asked = order as LoadOrder;
  if ("prepare" in asked) {
    pool = null;
    pool = makePool(asked.prepare);
    return null;
  }
  if (pool === null) throw new Error("no requests were prepared");
  return runLoad(asked.run, pool);
});
