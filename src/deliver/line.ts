import type { Clock } from "../event/clock.ts";
import { type Breaker, type BreakerState, createBreaker } from "./breaker.ts";
import type { Destination } from "./destinations/destination.ts";
import type { LaneSettings } from "./lane.ts";
import type { DestinationSettings } from "./settings.ts";
import { createTokenBucket, type TokenBucket } from "./token-bucket.ts";

export interface LineParts {
  readonly clock: Clock;
  readonly connect: (to: DestinationSettings) => Destination;
  /** Not given: breakers of this process alone. `changed` is called when one changed of itself. */
  readonly breakerOf?: (settings: LaneSettings, changed: () => void) => Breaker;
  /** Not given: the rate of this process alone. `changed` is called when `nextAt` may have changed of itself. */
  readonly bucketOf?: (route: string, perSecond: number, changed: () => void) => TokenBucket;
}

/** A destination with the settings it was made from; ended when the last attempt on it is over. */
export interface Line {
  readonly settings: LaneSettings;
  readonly destination: Destination;
  readonly breaker: Breaker;
  readonly bucket: TokenBucket | null;
  /** The state of the breaker that was last told of. */
  seen: BreakerState;
  /** An attempt on it begins, and is over. */
  entered(): void;
  left(): void;
  /** Ends it once no attempt is under way on it. */
  retire(): void;
  end(): Promise<void>;
}

export function openLine(settings: LaneSettings, parts: LineParts, changed: (line: Line) => void): Line {
  const { to } = settings;
  const { clock, breakerOf, bucketOf } = parts;
  const destination = parts.connect(to);
  const breaker = breakerOf?.(settings, () => changed(line)) ?? createBreaker(to.breaker, clock.now);
  const bucket =
    to.rate === undefined ? null : (bucketOf?.(settings.name, to.rate, () => changed(line)) ?? createTokenBucket(to.rate, clock.now));
  let inFlight = 0;
  let retired = false;

  async function end(): Promise<void> {
    breaker.close();
    bucket?.close();
    await destination.close();
  }

  const line: Line = {
    settings,
    destination,
    breaker,
    bucket,
    seen: "closed",
    entered() {
      inFlight += 1;
    },
    left() {
      inFlight -= 1;
      if (retired && inFlight === 0) void end();
    },
    retire() {
      retired = true;
      if (inFlight === 0) void end();
    },
    end,
  };
  return line;
}
