import type { Clock } from "../model/clock.ts";
import type { Logger, Privacy } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { DueDelivery, Planned } from "../store/rules.ts";
import type { PlanningBacklog } from "./engine.ts";
import type { Supervisor } from "./supervise.ts";

export interface PlanningParts {
  readonly backlog: PlanningBacklog;
  readonly announce: (due: readonly DueDelivery[]) => void;
  readonly metrics: Pick<Metrics, "dispositions">;
  readonly clock: Clock;
  readonly supervise: Supervisor["supervise"];
  readonly log: Logger;
  readonly privacy: Pick<Privacy, "text">;
  /** `tookMs`: of its batch. Absent while traces are off. */
  readonly planned?: ((event: Planned, tookMs: number) => void) | undefined;
}

/** How often to look for events that nobody plans, because their process died or the wake-up was lost. */
const lookEveryMs = 500;
/** The second look at start: another process that plans has made progress by then. */
const secondLookMs = 50;

/** Plans accepted events when woken, and when the oldest one has not changed between two looks. Returns the end of it. */
export function startPlanning({
  backlog,
  announce,
  metrics,
  clock,
  supervise,
  log,
  privacy,
  planned: report,
}: PlanningParts): () => Promise<void> {
  let isWoken = false;
  let oldest: string | null = null;
  let lookMs = secondLookMs;

  async function isStuck(): Promise<boolean> {
    const before = oldest;
    oldest = await backlog.next();
    return oldest !== null && oldest === before;
  }

  async function planAll(signal: AbortSignal): Promise<void> {
    do {
      isWoken = false;
      const startedAt = performance.now();
      const { planned, lost, left } = await backlog.planSome(clock.now());
      const tookMs = report === undefined ? 0 : performance.now() - startedAt;
      for (const event of planned) {
        const { seq, source, disposition, fault, due } = event;
        report?.(event, tookMs);
        announce(due);
        metrics.dispositions.count(source, disposition);
        if (fault !== null)
          log.error({ seq, source, fault: privacy.text(fault) }, "an event could not be planned; replay it once the cause is gone");
      }
      for (const seq of lost) log.error({ seq }, "an accepted event is not there any more, or cannot be read: it is never planned");
      isWoken ||= left === "some";
    } while (isWoken && !signal.aborted);
    oldest = null;
  }

  const task = supervise({
    name: "planning",
    firstMs: 0,
    async run(signal) {
      if (isWoken || (await isStuck())) {
        try {
          await planAll(signal);
        } catch (error) {
          // The next try plans without looking first.
          isWoken = true;
          throw error;
        }
      }
      const waitMs = lookMs;
      lookMs = lookEveryMs;
      return waitMs;
    },
  });
  const unsubscribe = backlog.onWaiting(() => {
    isWoken = true;
    task.wake();
  });
  return async () => {
    unsubscribe();
    await task.close();
  };
}
