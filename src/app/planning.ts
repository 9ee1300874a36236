import type { Clock } from "../model/clock.ts";
import type { Logger, Privacy } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { DueDelivery } from "../store/rules.ts";
import type { PlanningBacklog } from "./engine.ts";

export interface PlanningParts {
  readonly backlog: PlanningBacklog;
  readonly announce: (due: readonly DueDelivery[]) => void;
  readonly metrics: Pick<Metrics, "dispositions">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly privacy: Pick<Privacy, "text">;
}

/** How often is looked for what nobody plans: its process has ended, or the job that told of it was lost. */
const lookEveryMs = 500;
/** The same of what waits when a process starts: others that plan it have moved on by then. */
const firstLookMs = 50;

/** Plans what waits, when told that something does, and when nobody has for a moment. Returns the end of it. */
export function startPlanning({ backlog, announce, metrics, clock, log, privacy }: PlanningParts): () => Promise<void> {
  let isEnded = false;
  let isMore = false;
  let running: Promise<void> | null = null;
  let seen: string | null = null;
  /** It is tried again twice a second, and said once. */
  let isFailing = false;

  async function run(): Promise<void> {
    for (;;) {
      isMore = false;
      const { planned, lost, left } = await backlog.planSome(clock.now());
      isFailing = false;
      for (const { seq, source, disposition, fault, due } of planned) {
        announce(due);
        metrics.dispositions.count(source, disposition);
        if (fault !== null)
          log.error({ seq, source, fault: privacy.text(fault) }, "an event could not be planned; replay it once the cause is gone");
      }
      for (const seq of lost) log.error({ seq }, "an accepted event is not there any more, or cannot be read: it is never planned");
      if (isEnded || (left !== "some" && !isMore)) return;
    }
  }

  function wake(): void {
    isMore = true;
    if (isEnded || running !== null) return;
    running = run()
      .catch((error: unknown) => {
        // That nothing can be stored is said by the store itself, once.
        if (error instanceof Error && error.name === "StoreUnavailable") return;
        if (!isFailing) log.error({ err: error }, "planning failed; it will be tried again");
        isFailing = true;
      })
      .finally(() => {
        running = null;
        // Told of more after the last look at the list.
        if (isMore) wake();
      });
  }

  async function look(): Promise<void> {
    const next = running === null ? await backlog.next() : null;
    if (next !== null && next === seen) wake();
    seen = next;
  }

  const endWaking = backlog.onWaiting(wake);
  let cancel = (): void => {};
  let pauseMs = firstLookMs;
  function lookLater(): void {
    if (isEnded) return;
    cancel = clock.after(pauseMs, lookNow);
    pauseMs = lookEveryMs;
  }
  function lookNow(): void {
    look().then(lookLater, lookLater);
  }
  lookNow();

  return async () => {
    isEnded = true;
    endWaking();
    cancel();
    await running;
  };
}
