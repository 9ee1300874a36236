import type { Io } from "../io.ts";
import { withCommas } from "../output.ts";

/** The numbers on show. */
export interface DemoCounts {
  readonly sent: number;
  readonly posted: number;
  readonly accepted: number;
  readonly duplicate: number;
  readonly quarantined: number;
  readonly refused: number;
  readonly delivered: number;
  readonly retried: number;
  readonly waiting: number;
}

export interface Progress {
  /** `seconds` since the demo began; `downstream` in a word or two; `isLast` is shown in any case. */
  show(seconds: number, counts: DemoCounts, downstream: string, isLast?: boolean): void;
  /** A line that stays, above what is shown. */
  say(line: string): void;
}

/** A table that is drawn over itself on a terminal; one plain line a second in a pipe. */
export function createProgress(io: Io): Progress {
  return io.isTerminal ? createTable(io) : createLines(io);
}

const rows: readonly (readonly [keyof DemoCounts, string])[] = [
  ["sent", "messages the service took from the client"],
  ["posted", "posts of events by the service"],
  ["accepted", "events stored, each once"],
  ["duplicate", "known event ids"],
  ["quarantined", "rightly signed, but no envelope"],
  ["refused", "wrongly signed"],
  ["delivered", "deliveries the downstream took"],
  ["retried", "attempts it refused; they come again"],
  ["waiting", "deliveries still owed"],
];

function createTable(io: Io): Progress {
  let height = 0;
  // Up over what was drawn, and clear from there to the end of the screen.
  const over = () => (height === 0 ? "" : `\x1b[${height}A\x1b[0J`);
  return {
    show(seconds, counts, downstream) {
      const lines = [
        `  ${`${seconds.toFixed(1)} s`.padStart(19)}  downstream ${downstream}`,
        ...rows.map(([name, meaning]) => `  ${name.padEnd(11)} ${withCommas(counts[name]).padStart(7)}  ${meaning}`),
      ];
      io.out(over() + lines.join("\n"));
      height = lines.length;
    },
    say(line) {
      io.out(over() + line);
      height = 0;
    },
  };
}

function createLines(io: Io): Progress {
  let shown = -1;
  return {
    show(seconds, counts, downstream, isLast = false) {
      if (Math.floor(seconds) === shown && !isLast) return;
      shown = Math.floor(seconds);
      io.out(`${seconds.toFixed(1)}s ${rows.map(([name]) => `${name}=${counts[name]}`).join(" ")} downstream=${downstream}`);
    },
    say: (line) => io.out(line),
  };
}
