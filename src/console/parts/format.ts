/** As in the relay's sentences beside them: "1,204" is another number in German. */
const locale = "en-US";
const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });

/** A number, or a dash where there is none. */
export const none = "–";

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? none : whole.format(value);
}

/** Rates and figures: one decimal below ten. */
export function figure(value: number | null): string {
  if (value === null) return none;
  return (Math.abs(value) < 10 ? oneDigit : whole).format(value);
}

/** A share from 0 to 1. Never rounds to 100 % what is less. */
export function percent(share: number | null): string {
  if (share === null) return none;
  const hundredths = share < 1 ? Math.min(99.9, Math.floor(share * 1000) / 10) : 100;
  return `${oneDigit.format(hundredths)} %`;
}

/** A duration in milliseconds: `4.1 ms`, `12 min`. `format` writes the number. */
export function duration(ms: number | null, format: (value: number) => string = figure): string {
  if (ms === null) return none;
  const steps: readonly (readonly [unit: string, ms: number])[] = [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["min", 60_000],
    ["s", 1_000],
  ];
  // 120 s rather than 2 min: below two units the smaller one says more.
  const [unit, size] = steps.find(([, size]) => ms >= (size === 1_000 ? size : 2 * size)) ?? [
    "ms",
    1,
  ];
  return `${format(ms / size)} ${unit}`;
}

export function bytes(size: number): string {
  if (size < 1_000) return `${size} bytes`;
  return size < 1_000_000 ? `${figure(size / 1_000)} kB` : `${figure(size / 1_000_000)} MB`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
