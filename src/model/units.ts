import { z } from "zod";
import {
  durationUnits,
  inUnits,
  mostMs,
  mostRate,
  perSecond,
  ratePattern,
  sizeUnits,
  unitPattern,
} from "./unit-text.ts";

/**
 * The `title` of a schema is the unit of the parsed number, with which `config print` formats it.
 * The maxima keep sums exact, and JSON free of exponents.
 */
function unitSchema(
  title: string,
  units: Readonly<Record<string, number>>,
  examples: string,
  most: number,
  mostText: string,
) {
  return z
    .string(`must be a ${title} (like ${examples})`)
    .regex(unitPattern(units), `is not a ${title} (like ${examples})`)
    .meta({ title })
    .transform((text) => inUnits(text, units))
    .refine((value) => value <= most, `must be at most ${mostText}`);
}

export const durationSchema = unitSchema(
  "duration",
  durationUnits,
  "250ms, 5s, 30m, 72h, 30d",
  mostMs,
  "36500d",
);

/** Bytes after parsing. */
export const sizeSchema = unitSchema(
  "size",
  sizeUnits,
  "512B, 256KiB, 1MiB",
  1024 ** 5,
  "1048576GiB",
);

/** A rate such as `50/s`, `300/m`; per second after parsing. */
export const rateSchema = z
  .string("must be a rate (like 50/s, 300/m, 1000/h)")
  .regex(ratePattern, "is not a rate (like 50/s, 300/m, 1000/h)")
  .refine((text) => Number.parseFloat(text) > 0, "must be more than zero")
  .refine((text) => Number.parseFloat(text) <= mostRate, `must be at most ${mostRate}`)
  .meta({ title: "rate" })
  .transform(perSecond);
