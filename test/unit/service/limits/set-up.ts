import { expect } from "vitest";
import type { CallOutcome, CallRequest, Permit } from "../../../../src/service/endpoints.ts";
import { ServiceError } from "../../../../src/service/errors.ts";
import { planCaps } from "../../../../src/service/limits/caps.ts";
import { createLimiter, type LimiterOptions } from "../../../../src/service/limits/limiter.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";

export const answered: CallOutcome = { type: "answered" };
export const send: CallRequest = { operation: "messages" };
export const run: CallRequest = { operation: "runs" };
export const poll: CallRequest = { operation: "reads" };

export type Asked = { at: number; permit: Permit } | { error: unknown };

/**
 * A limiter on a clock that stands still, whose key is proven good unless said; its time of trial
 * is over. As many calls as there are slots may be under way at once, unless said.
 */
export async function setUp(options: Partial<LimiterOptions> = {}, isProven = true) {
  const clock = createManualClock();
  const limiter = createLimiter({
    caps: planCaps.escala,
    share: 1,
    clock,
    atOnce: 10_000,
    ...options,
  });
  if (isProven) {
    (await limiter.enter(poll)).settle(answered);
    await clock.advance(60_000);
  }
  const start = clock.now();

  /** Asks, and notes what becomes of it; `at` in ms since the set-up. */
  function enter(call: CallRequest): { got: Asked | null } {
    const note: { got: Asked | null } = { got: null };
    limiter.enter(call).then(
      (permit) => {
        note.got = { at: clock.now() - start, permit };
      },
      (error: unknown) => {
        note.got = { error };
      },
    );
    return note;
  }

  /**
   * Calls that are answered the moment they go; gives the times at which they went, as far as they
   * did.
   */
  function enterAnswered(count: number, call: CallRequest): number[] {
    const times: number[] = [];
    for (let n = 0; n < count; n += 1) {
      void limiter.enter(call).then((permit) => {
        times.push(clock.now() - start);
        permit.settle(answered);
      });
    }
    return times;
  }

  /** One call that goes at once and ends so. */
  async function settleOne(call: CallRequest, outcome: CallOutcome): Promise<void> {
    const note = enter(call);
    await clock.advance(0);
    permitOf(note).settle(outcome);
    await clock.advance(0);
  }

  return { clock, limiter, enter, enterAnswered, settleOne };
}

export function permitOf(note: { got: Asked | null }): Permit {
  if (note.got === null || !("permit" in note.got))
    throw new Error(`was not let go: ${String(note.got?.error)}`);
  return note.got.permit;
}

/** The kind of the error that a call was turned away with. */
export function refusalOf(note: { got: Asked | null }): string {
  if (note.got === null || !("error" in note.got)) throw new Error("was not turned away");
  const { error } = note.got;
  expect(error).toBeInstanceOf(ServiceError);
  expect(error).toMatchObject({ local: true, outcome: "not-done", status: null });
  return (error as ServiceError).kind;
}
