import { InvalidArgumentError, Option } from "commander";

export interface TimeOptions {
  readonly from?: string;
  readonly to?: string;
  /** Checked by `timeFilter`. */
  readonly since?: string;
}

/** `--from`, `--to` and `--since`: when events were received. */
export function timeOptions(): Option[] {
  return [
    new Option("--from <time>", "received from this time on, such as 2026-11-20T08:00:00Z or 2026-11-20 (UTC)").argParser(time),
    new Option("--to <time>", "received before this time").argParser(time),
    new Option("--since <duration>", "received within this time until now, such as 30m, 2h, 7d").conflicts("from"),
  ];
}

/** A whole number from 1, for options. */
export function count(text: string): number {
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new InvalidArgumentError("It must be a whole number from 1.");
  return Number(text);
}

/** `2026-11-20 08:00:00.123`, in UTC, as tables show times; empty for null. */
export function timeText(iso: string | null): string {
  return iso === null ? "" : iso.replace("T", " ").replace("Z", "");
}

/** For options: a date, or a time with its zone; gives ISO 8601, UTC. */
export function time(text: string): string {
  const withZone = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;
  const at = withZone.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) throw new InvalidArgumentError("It must be a date (2026-11-20) or a time with its zone (2026-11-20T08:00:00Z).");
  return new Date(at).toISOString();
}
