import type { ReceivedEvent } from "../../src/model/event.ts";
import type { RedisStore } from "../../src/store/redis/open.ts";
import type { AcceptOutcome, Planned } from "../../src/store/rules.ts";

/** Who plans alone needs one run, unless others accept meanwhile. */
const mostRuns = 100;

/** A receiver accepts, and a worker plans until that event is planned: together what one step is elsewhere. */
export function acceptAndPlan(
  receiver: Pick<RedisStore, "accept">,
  worker: Pick<RedisStore, "planning">,
): (event: ReceivedEvent, proxyRoute?: string | null) => Promise<AcceptOutcome> {
  const planned = new Map<number, Planned>();
  return async (event, proxyRoute = null) => {
    const outcome = await receiver.accept(event, proxyRoute);
    if (outcome.result === "duplicate" || outcome.disposition !== "accepted") return outcome;
    for (let runs = 0; runs < mostRuns; runs++) {
      const mine = planned.get(outcome.seq);
      if (mine !== undefined) return { ...outcome, disposition: mine.disposition, due: mine.due };
      for (const one of (await worker.planning.planSome(event.receivedAt)).planned) planned.set(one.seq, one);
    }
    throw new Error(`event ${outcome.seq} was never planned`);
  };
}
