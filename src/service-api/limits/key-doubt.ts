import type { NumberedCall } from "./stops.ts";

/** Waits before each next try with a key that was refused; the last one again and again. */
const waitsMs = [30_000, 60_000, 120_000, 240_000, 480_000, 900_000] as const;

/**
 * Whether the key is good, after a 401 said that it is not. "More than 20 requests per minute from one IP address with
 * invalid keys blocks that IP for one minute, also for valid keys" (messaging-service-api.md, "Authentication"), and
 * other accounts and programs share the address: so one call tries at a time, with growing waits in between.
 *
 * | doubt | what happens | becomes |
 * |---|---|---|
 * | none | a 401 | doubt, the next try after 30 s |
 * | waiting | the wait is over and somebody calls | probing: this call is the probe |
 * | probing | a 401 | waiting, for longer |
 * | probing | no answer, or the address is blocked | waiting, as long as before |
 * | probing | the probe gives up before it goes | the next call is the probe |
 * | probing | any other answer | none |
 *
 * Calls that were under way when a doubt began or ended tell nothing new, and change nothing.
 */
export function createKeyDoubt() {
  /** Index into the waits; null: no doubt. */
  let wait: number | null = null;
  let until = 0;
  let isProbing = false;
  /** The newest call when the last doubt ended. */
  let endedAt = 0;

  function waitFrom(now: number, index: number): void {
    wait = Math.min(index, waitsMs.length - 1);
    until = now + (waitsMs[wait] as number);
    isProbing = false;
  }
  function end(newest: number): void {
    wait = null;
    isProbing = false;
    endedAt = newest;
  }

  return {
    /** Steady ms from which one call may try; null: there is no doubt. */
    until: (): number | null => (wait === null ? null : until),
    mayProbe: (now: number): boolean => !isProbing && now >= until,
    probe(): void {
      isProbing = true;
    },
    probeLeft(): void {
      isProbing = false;
    },
    /** A 401. True when the doubt begins with it. */
    refused(call: NumberedCall, now: number): boolean {
      if (wait !== null) {
        if (call.isProbe && isProbing) waitFrom(now, wait + 1);
        return false;
      }
      if (call.number <= endedAt) return false;
      waitFrom(now, 0);
      return true;
    },
    /** No answer that tells of the key. */
    unsettled(call: NumberedCall, now: number): void {
      if (call.isProbe && isProbing && wait !== null) waitFrom(now, wait);
    },
    /** An answer that only a good key gets. */
    accepted(call: NumberedCall, newest: number): void {
      if (call.isProbe && isProbing) end(newest);
    },
    end,
  };
}
