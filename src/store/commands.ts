import type { Registered, Rules } from "./rules.ts";
import { type Accepted, type Arriving, accept } from "./work/accept.ts";
import type { Batches } from "./work/batches.ts";
import { createCounting } from "./work/counts.ts";
import type { Held } from "./work/leases.ts";
import { expireParked, releaseParked } from "./work/parking.ts";
import { createPlanNumbers } from "./work/plan-numbers.ts";
import { type Registering, register } from "./work/register.ts";
import { type SettledOutcome, type Settling, settle } from "./work/settle.ts";

interface CommandParts {
  readonly rules: Rules;
  /** Names this process in the counts; empty where it is the only one. */
  readonly writer: string;
  /** The leases of this process. */
  readonly held: () => Held;
}

/** The commands of both databases, with what they remember between batches. */
export function createCommands({ rules, writer, held }: CommandParts) {
  const plans = createPlanNumbers();
  const counts = createCounting(writer).begin;
  const parking = { rules, plans, counts };
  return {
    accept: {
      *work(batch) {
        const { outcomes, plans: stored } = yield* accept(batch, { rules, plans, counts });
        return { outcomes, stored: () => plans.noteStored(stored) };
      },
    } satisfies Batches<Arriving, Accepted>,
    settle: {
      *work(batch) {
        return { outcomes: yield* settle(batch, { counts, held: held() }) };
      },
    } satisfies Batches<Settling, SettledOutcome>,
    register: {
      *work(batch) {
        return { outcomes: yield* register(batch, parking) };
      },
    } satisfies Batches<Registering, readonly Registered[]>,
    releaseParked: (now: number, limit: number) => releaseParked(now, limit, parking),
    expireParked: (now: number, limit: number) => expireParked(now, limit, parking),
  };
}
