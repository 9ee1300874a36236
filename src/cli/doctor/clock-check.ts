import { statSync } from "node:fs";
import type { Skew } from "./destination-checks.ts";
import { type Finding, ok, spanText, warn } from "./finding.ts";

/** Signatures with a timestamp are refused from a few minutes on; this is early enough to see it come. */
const tolerated = 30_000;

interface ClockSigns {
  readonly now: number;
  /** How much further the wall clock went than the monotonic one while doctor ran, in ms. */
  readonly jumpedMs: number;
  /** When the newest event was received; null when there is none. */
  readonly newestEventAt: number | null;
  /** When the store's file was last changed; null when there is none. */
  readonly fileChangedAt: number | null;
  readonly skews: readonly Skew[];
}

export function judgeClock({ now, jumpedMs, newestEventAt, fileChangedAt, skews }: ClockSigns): Finding[] {
  const todo = "set this machine's clock by NTP (timedatectl)";
  const found: Finding[] = [];
  if (Math.abs(jumpedMs) > 1_000) found.push(warn("clock", `it was set by ${spanText(jumpedMs)} while doctor ran`, todo));
  const ahead = Math.max(newestEventAt ?? 0, fileChangedAt ?? 0) - now;
  if (ahead > tolerated)
    found.push(warn("clock", `what was stored last lies ${spanText(ahead)} in the future: the clock is behind, or was ahead`, todo));
  for (const { name, skewMs } of skews.filter((skew) => Math.abs(skew.skewMs) > tolerated)) {
    const way = skewMs > 0 ? "ahead of" : "behind";
    found.push(
      warn("clock", `the clock of ${name} is ${spanText(skewMs)} ${way} this machine's: signatures may be refused as stale`, todo),
    );
  }
  if (found.length > 0) return found;
  return [
    ok(
      "clock",
      skews.length === 0 ? "steady; no destination told its time" : `steady, and agrees with ${skews.length} of the destinations`,
    ),
  ];
}

/** Unix ms of a file's last change; null when there is no such file. */
export function changedAt(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? null;
}
