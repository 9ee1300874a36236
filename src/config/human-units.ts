const duration = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
  ["ms", 1],
] as const;
const size = [
  ["GiB", 1024 ** 3],
  ["MiB", 1024 ** 2],
  ["KiB", 1024],
  ["B", 1],
] as const;
const rate = [
  ["s", 1],
  ["m", 60],
  ["h", 3600],
] as const;

/** Milliseconds as the settings write them: `90s`, `1d`. Whole milliseconds from 0. */
export function durationText(ms: number): string {
  return ms === 0 ? "0s" : inWholeUnits(ms, duration);
}

/** Bytes as the settings write them: `1MiB`. Whole bytes from 0. */
export function sizeText(bytes: number): string {
  return bytes === 0 ? "0B" : inWholeUnits(bytes, size);
}

/** A rate per second as the settings write it, in the first unit that makes it whole: `50/s`, `5/m`; else as a fraction. */
export function rateText(perSecond: number): string {
  for (const [unit, seconds] of rate) {
    const count = Math.round(perSecond * seconds);
    // 1/3600 × 3600 need not be 1 in floating point.
    if (count > 0 && Math.abs(count / seconds - perSecond) <= perSecond * 1e-12) return `${count}/${unit}`;
  }
  return perSecond >= 1 ? `${plainNumber(perSecond)}/s` : `${plainNumber(perSecond * 3600)}/h`;
}

/** Without an exponent, which settings do not accept. */
function plainNumber(value: number): string {
  const text = String(value);
  return text.includes("e") ? value.toFixed(20) : text;
}

function inWholeUnits(value: number, units: readonly (readonly [string, number])[]): string {
  for (const [unit, factor] of units) if (value % factor === 0) return `${value / factor}${unit}`;
  return String(value);
}
