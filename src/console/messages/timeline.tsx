import type { ComponentChildren } from "preact";
import { Link } from "wouter-preact";
import { now } from "../app/clock.ts";
import { originText } from "../events/words.ts";
import { duration } from "../parts/format.ts";
import { Status, toneOf } from "../parts/status.tsx";
import { Time } from "../parts/time.tsx";
import { barsOf, type Step } from "./steps.ts";

export interface TimelineProps {
  readonly steps: readonly Step[];
  /** Another step is expected: the last one lasts until now. */
  readonly isOpen: boolean;
  /** Below the step of a failure. */
  readonly failure: ComponentChildren;
}

/**
 * One row for each step, with its share of the whole time drawn to scale. Screen readers read a
 * list.
 */
export function Timeline({ steps, isOpen, failure }: TimelineProps) {
  if (steps.length === 0) return <p class="dim">No status yet.</p>;
  const bars = barsOf(steps, isOpen ? now() : null);
  return (
    <ol class="timeline" aria-label="Timeline">
      {steps.map(({ status, at, origin, event }, index) => {
        const { from, to, sinceMs } = bars[index] ?? { from: 0, to: 0, sinceMs: null };
        return (
          <li key={status}>
            <Status word={status} />
            <svg class={`track ${toneOf(status)}`} aria-hidden="true">
              <rect x="0" y="11" width="100%" height="1" class="axis" />
              <rect x={`${from * 100}%`} y="8" width={`${(to - from) * 100}%`} height="7" rx="2" />
              <rect x={`${from * 99}%`} y="4" width="3" height="15" rx="1" />
            </svg>
            <Time at={at} />
            <span class="dim">
              {sinceMs !== null && `${duration(sinceMs)} later`}
              {index === steps.length - 1 &&
                isOpen &&
                ` ${sinceMs === null ? "" : "· "}no step since`}
            </span>
            <span class="dim origin">
              {origin !== null && `${originText(origin)} `}
              {event !== null && <Link href={`/events/${event}`}>event {event}</Link>}
            </span>
            {toneOf(status) === "stopped" && failure !== null && <p class="failure">{failure}</p>}
          </li>
        );
      })}
    </ol>
  );
}
