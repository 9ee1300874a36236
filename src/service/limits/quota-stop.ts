import type { CallOperation } from "../admission.ts";
import { judgeRenewal } from "../renewal.ts";
import type { QuotaReason, QuotaStop } from "./account-state.ts";

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
/** Longer than a probe waits for its turn and its answer. */
const probeMs = 120_000;

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
  // While a probe is on its way, the others wait for its answer.
  return toUnix(Math.max(until, probeUntil));
}

export function mayProbeQuota({ until, probeUntil }: QuotaStop, now: number): boolean {
  return now >= until && now >= probeUntil;
}

export function beginQuotaProbe(stop: QuotaStop, now: number): void {
  stop.probeUntil = now + probeMs;
}

export function leaveQuotaProbe(stop: QuotaStop): void {
  stop.probeUntil = 0;
}

export function quotaUnsettled(stop: QuotaStop, now: number): void {
  stop.until = now + unsettledMs;
  leaveQuotaProbe(stop);
}
