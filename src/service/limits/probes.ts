import type { CallOperation } from "../admission.ts";
import { judgeRenewal } from "../renewal.ts";
import type { KeyState, NumberedCall, QuotaReason, QuotaStop } from "./account.ts";

/*
 * Stops that end by a probe: one call tries whether the stop still holds, while the others are refused.
 * Times are steady ms.
 */

/** Longer than a probe waits for its turn and its answer. Two probes at once would do no harm. */
const probeMs = 120_000;

type ProbedStop = Pick<QuotaStop, "until" | "probeUntil">;

export function mayProbe({ until, probeUntil }: ProbedStop, now: number): boolean {
  return now >= until && now >= probeUntil;
}

export function beginProbe(stop: ProbedStop, now: number): void {
  stop.probeUntil = now + probeMs;
}

/** The probe gave up before it was sent. */
export function leaveProbe(stop: ProbedStop): void {
  stop.probeUntil = 0;
}

/*
 * A used-up monthly quota stops the calls that its resource covers. Times are steady ms.
 *
 * | state | what happens | becomes |
 * |---|---|---|
 * | none | a 429 with `cause` | stopped |
 * | stopped | `until` is over and a covered call comes | probing: this call is the probe |
 * | probing | a 429 with the same cause | stopped |
 * | probing | any other answer that shows a working key | none |
 * | probing | no answer, a per-minute 429, a refused key or address | stopped, for 5 minutes |
 * | probing | the probe gives up before it is sent, or its process ends (2 minutes) | the next call is the probe |
 * | any | `resume`, SIGHUP, another plan | none |
 *
 * `until` is the renewal where it is certain. Otherwise a probe goes every hour, so a wrong judgment costs an hour.
 */

const hourMs = 3_600_000;
/** After a probe that brought no verdict. */
const unsettledMs = 5 * 60_000;

/**
 * Which calls a resource covers. The document names `apiCalls` only. A resource that it does not name, or an absent one,
 * stops the refused kind of call: if that is too little, each other kind costs one refused call.
 */
export function reasonOf(resource: string | null, operation: CallOperation): QuotaReason {
  const name = resource?.toLowerCase() ?? "";
  if (name === "apicalls") return "quota";
  return name.startsWith("automation") ? "quota-runs" : `quota-${operation}`;
}

/** The stops that cover calls of an operation. */
export function coveringReasons(operation: CallOperation): readonly QuotaReason[] {
  return ["quota", `quota-${operation}`];
}

export function quotaStop(resource: string | null, serviceTime: number | null, now: number, wallNow: number): QuotaStop {
  const { at, knownAt, isCertain } = judgeRenewal(serviceTime, wallNow);
  const wait = knownAt - wallNow;
  // When a resource other than API calls renews is not documented.
  const isKnown = isCertain && resource?.toLowerCase() === "apicalls";
  return { resource, renewsAt: isKnown ? at : null, until: now + (isKnown ? wait : Math.min(wait, hourMs)), probeUntil: 0 };
}

/** Until when calls are refused, in unix ms: the renewal where it is certain, else when the next call may probe. */
export function quotaUntil({ renewsAt, until, probeUntil }: QuotaStop, wallNow: number, toUnix: (at: number) => number): number {
  if (renewsAt !== null && renewsAt > wallNow) return renewsAt;
  // While a probe is in flight, the others wait for its answer.
  return toUnix(Math.max(until, probeUntil));
}

export function quotaUnsettled(stop: QuotaStop, now: number): void {
  stop.until = now + unsettledMs;
  leaveProbe(stop);
}

/*
 * A key is doubted after a 401. "More than 20 requests per minute from one IP address with
 * invalid keys blocks that IP for one minute, also for valid keys" (messaging-service-api.md, "Authentication"), and
 * other accounts and programs share the address. So one call probes at a time, with growing waits in between.
 *
 * | doubt | what happens | becomes |
 * |---|---|---|
 * | none | a 401 | doubt, the next try after 30 s |
 * | waiting | the wait is over and a call comes | probing: this call is the probe |
 * | probing | a 401 | waiting, for longer |
 * | probing | no answer, or the address is blocked | waiting, as long as before |
 * | probing | the probe gives up before it is sent | the next call is the probe |
 * | probing | the probe has not ended after two minutes: its process died | the next call is the probe |
 * | probing | any other answer | none |
 *
 * Calls that were in flight when a doubt began or ended change nothing. Times are steady ms.
 */

/** Waits before each probe with a refused key; the last one repeats. */
const waitsMs = [30_000, 60_000, 120_000, 240_000, 480_000, 900_000] as const;

export function isDoubted({ wait }: KeyState): boolean {
  return wait !== null;
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

/** No answer, or one that says nothing about the key. */
export function keyUnsettled(key: KeyState, call: NumberedCall, now: number): void {
  if (key.wait !== null && isProbe(key, call, now)) waitFrom(key, now, key.wait);
}

/** An answer that only a valid key gets. */
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
