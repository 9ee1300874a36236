import { z } from "zod";

const durationUnits = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 };
const sizeUnits = { GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024, B: 1 };
/** In seconds. */
const rateUnits = { s: 1, m: 60, h: 3600 };

type Units = Readonly<Record<string, number>>;

function inUnits(text: string, units: Units): number {
  const match = /^([0-9.]+)(.*)$/.exec(text) as RegExpExecArray;
  return Number(match[1]) * (units[match[2] as string] as number);
}

/**
 * The `title` of a schema is the unit of the parsed number, with which `config print` formats it. The maxima keep sums
 * exact, and JSON free of exponents.
 */
function unitSchema(title: string, units: Units, examples: string, most: number, mostText: string) {
  return z
    .string(`must be a ${title} (like ${examples})`)
    .regex(new RegExp(`^\\d+(\\.\\d+)?(${Object.keys(units).toReversed().join("|")})$`), `is not a ${title} (like ${examples})`)
    .meta({ title })
    .transform((text) => Math.round(inUnits(text, units)))
    .refine((value) => value <= most, `must be at most ${mostText}`);
}

export const durationSchema = unitSchema("duration", durationUnits, "250ms, 5s, 30m, 72h, 30d", 36_500 * 86_400_000, "36500d");

/** Bytes after parsing. */
export const sizeSchema = unitSchema("size", sizeUnits, "512B, 256KiB, 1MiB", 1024 ** 5, "1048576GiB");

/** A rate such as `50/s`, `300/m`; per second after parsing. */
export const rateSchema = z
  .string("must be a rate (like 50/s, 300/m, 1000/h)")
  .regex(/^\d+(\.\d+)?\/(s|m|h)$/, "is not a rate (like 50/s, 300/m, 1000/h)")
  .refine((text) => Number.parseFloat(text) > 0, "must be more than zero")
  .refine((text) => Number.parseFloat(text) <= 1_000_000, "must be at most 1000000")
  .meta({ title: "rate" })
  .transform((text) => {
    const [count, unit] = text.split("/") as [string, string];
    return Number(count) / ((rateUnits as Units)[unit] as number);
  });

export function durationText(ms: number): string {
  return ms === 0 ? "0s" : inWholeUnits(ms, durationUnits);
}

export function sizeText(bytes: number): string {
  return bytes === 0 ? "0B" : inWholeUnits(bytes, sizeUnits);
}

/** A rate per second as the settings write it, in the first unit that makes it whole: `50/s`, `5/m`; else as a fraction. */
export function rateText(perSecond: number): string {
  for (const [unit, seconds] of Object.entries(rateUnits)) {
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

function inWholeUnits(value: number, units: Units): string {
  for (const [unit, factor] of Object.entries(units)) if (value % factor === 0) return `${value / factor}${unit}`;
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
