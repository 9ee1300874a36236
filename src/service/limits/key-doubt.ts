import type { KeyState } from "./account-state.ts";
import type { NumberedCall } from "./stops.ts";

/*
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
 * | probing | nothing is heard of the probe for two minutes: its process is gone | the next call is the probe |
 * | probing | any other answer | none |
 *
 * Calls that were under way when a doubt began or ended tell nothing new, and change nothing. Times are steady ms.
 */

/** Waits before each next try with a key that was refused; the last one again and again. */
const waitsMs = [30_000, 60_000, 120_000, 240_000, 480_000, 900_000] as const;
/** Longer than a probe waits for its turn and its answer; two at once would do no harm either. */
const probeMs = 120_000;

export function isDoubted({ wait }: KeyState): boolean {
  return wait !== null;
}

export function mayProbe(key: KeyState, now: number): boolean {
  return now >= key.until && now >= key.probeUntil;
}

export function beginProbe(key: KeyState, now: number): void {
  key.probeUntil = now + probeMs;
}

/** The probe gave up before it was let go. */
export function leaveProbe(key: KeyState): void {
  key.probeUntil = 0;
}

/** A 401. True when the doubt begins with it. */
export function keyRefused(key: KeyState, call: NumberedCall, now: number): boolean {
  if (key.wait !== null) {
    if (isProbe(key, call, now)) waitFrom(key, now, key.wait + 1);
    return false;
  }
  if (call.number <= key.endedAt) return false;
  waitFrom(key, now, 0);
  return true;
}

/** No answer that tells of the key. */
export function keyUnsettled(key: KeyState, call: NumberedCall, now: number): void {
  if (key.wait !== null && isProbe(key, call, now)) waitFrom(key, now, key.wait);
}

/** An answer that only a good key gets. */
export function keyAccepted(key: KeyState, call: NumberedCall, newest: number, now: number): void {
  if (isProbe(key, call, now)) endDoubt(key, newest);
}

export function endDoubt(key: KeyState, newest: number): void {
  key.wait = null;
  leaveProbe(key);
  key.endedAt = newest;
}

function isProbe(key: KeyState, call: NumberedCall, now: number): boolean {
  return call.probes.includes("unauthenticated") && now < key.probeUntil;
}

function waitFrom(key: KeyState, now: number, index: number): void {
  key.wait = Math.min(index, waitsMs.length - 1);
  key.until = now + (waitsMs[key.wait] as number);
  leaveProbe(key);
}
