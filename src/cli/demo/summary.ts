import { withCommas } from "../output.ts";
import type { Check } from "./checks.ts";
import type { DemoResult } from "./run-demo.ts";

/** The demo's last word, for people. */
export function summaryLines({ tookMs, checks }: DemoResult): string[] {
  const bad = checks.filter((check) => !check.ok).length;
  const width = Math.max(...checks.map(({ what }) => what.length));
  return [
    "",
    ...checks.map((check) => `  ${check.ok ? "ok      " : "MISMATCH"}  ${check.what.padEnd(width)}  ${seenText(check)}`),
    "",
    bad === 0
      ? `Every sum matches: each event stored once, delivered, in order, byte for byte, each status true (${(tookMs / 1000).toFixed(1)} s).`
      : `${bad} of ${checks.length} sums do not match.`,
  ];
}

function seenText({ seen }: Check): string {
  return Object.entries(seen)
    .map(([by, count]) => `${by} ${withCommas(count)}`)
    .join(" · ");
}

/** What somebody who saw the demo may want next. */
export const whatNext: readonly string[] = [
  "",
  "What to try next:",
  "  npm run -s relay -- demo --keep            keep the demo's settings, database and log for a look",
  "  npm run -s relay -- demo --seed another    the same again with other people and other disorder",
  "  npm run -s relay -- sandbox                the messaging service alone, to build your own sender against",
  "  npm run -s relay -- --help                 all commands",
  "  README.md                                  from here to a deployed endpoint",
];
