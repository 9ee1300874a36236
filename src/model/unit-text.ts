/*
 * Durations, sizes and rates as text. Without zod: the command line reads its options with this.
 */

type Units = Readonly<Record<string, number>>;

/** In ms. */
export const durationUnits = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 };
/** In bytes. */
export const sizeUnits = { GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024, B: 1 };
/** In seconds. */
const rateUnits: Units = { s: 1, m: 60, h: 3600 };

/** The greatest duration, in ms. */
export const mostMs = 36_500 * durationUnits.d;

/** The greatest number of a rate, in any unit. */
export const mostRate = 1_000_000;

export const unitPattern = (units: Units): RegExp =>
  new RegExp(`^\\d+(\\.\\d+)?(${Object.keys(units).toReversed().join("|")})$`);
export const ratePattern = /^\d+(\.\d+)?\/(s|m|h)$/;

/** NaN for a text of another form. */
export function inUnits(text: string, units: Units): number {
  const unit = unitPattern(units).exec(text)?.[2] ?? "";
  return Math.round(Number.parseFloat(text) * (units[unit] ?? Number.NaN));
}

/** Per second. NaN for a text of another form. */
export function perSecond(text: string): number {
  const unit = ratePattern.exec(text)?.[2] ?? "";
  return Number.parseFloat(text) / (rateUnits[unit] ?? Number.NaN);
}

export function durationText(ms: number): string {
  return ms === 0 ? "0s" : inWholeUnits(ms, durationUnits);
}

export function sizeText(bytes: number): string {
  return bytes === 0 ? "0B" : inWholeUnits(bytes, sizeUnits);
}

/**
 * A rate per second as the settings write it, in the first unit that makes it whole: `50/s`, `5/m`;
 * else as a fraction.
 */
export function rateText(perSecond: number): string {
  for (const [unit, seconds] of Object.entries(rateUnits)) {
    const count = Math.round(perSecond * seconds);
    // 1/3600 × 3600 need not be 1 in floating point.
    if (count > 0 && Math.abs(count / seconds - perSecond) <= perSecond * 1e-12)
      return `${count}/${unit}`;
  }
  return perSecond >= 1 ? `${plainNumber(perSecond)}/s` : `${plainNumber(perSecond * 3600)}/h`;
}

/** Without an exponent, which settings do not accept. */
function plainNumber(value: number): string {
  const text = String(value);
  return text.includes("e") ? value.toFixed(20) : text;
}

function inWholeUnits(value: number, units: Units): string {
  for (const [unit, factor] of Object.entries(units))
    if (value % factor === 0) return `${value / factor}${unit}`;
  return String(value);
}

/** A span of time for a person: `45 s`, `12 min`, `3.5 h`, `8 days`. */
export function spanText(ms: number): string {
  const seconds = Math.abs(ms) / 1000;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}
