/** One line of `doctor`. */
export interface Finding {
  /** Name of the check. */
  readonly check: string;
  /** `skip`: not checked, for the reason in `message`. */
  readonly level: "ok" | "warn" | "fail" | "skip";
  readonly message: string;
  /** The remedy, where the message does not name it. */
  readonly todo?: string;
}

export function ok(check: string, message: string): Finding {
  return { check, level: "ok", message };
}

export function warn(check: string, message: string, todo: string): Finding {
  return { check, level: "warn", message, todo };
}

export function fail(check: string, message: string, todo: string): Finding {
  return { check, level: "fail", message, todo };
}

export function skip(check: string, message: string): Finding {
  return { check, level: "skip", message };
}

/** Bytes for a person: `1.4 GiB`. */
export function bytesText(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}
