import { setTimeout as wait } from "node:timers/promises";

/** Long work in steps: each `yield` is a place where others may run. */
export type Steps<Result> = Generator<void, Result>;

export function runSteps<Result>(steps: Steps<Result>): Result {
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

const turnMs = 10;
/** A request takes several turns of the event loop: its connection, its bytes and its answer. */
const restMs = 5;

/** Others are served between the steps: after the first, and then whenever `turnMs` have passed. */
export async function runInTurns<Result>(
  steps: Steps<Result>,
  now = () => performance.now(),
  rest = () => wait(restMs),
): Promise<Result> {
  let restedAt = Number.NEGATIVE_INFINITY;
  let step = steps.next();
  while (step.done !== true) {
    if (now() - restedAt >= turnMs) {
      await rest();
      restedAt = now();
    }
    step = steps.next();
  }
  return step.value;
}
