import type { Io } from "../io.ts";
import { withCommas } from "../output.ts";
import { createDrawing } from "../progress.ts";

const rows = [
  ["sent", "messages the service took from the client"],
  ["posted", "posts of events by the service"],
  ["accepted", "events stored, each once"],
  ["duplicate", "known event ids"],
  ["quarantined", "rightly signed, but no event"],
  ["refused", "wrongly signed"],
  ["delivered", "deliveries the downstream took"],
  ["retried", "attempts it refused; they come again"],
  ["waiting", "deliveries still pending"],
] as const;
export type DemoCounts = Readonly<Record<(typeof rows)[number][0], number>>;

export function createProgress(io: Io) {
  const drawing = createDrawing(io);
  let shown = -1;
  return {
    /**
     * `seconds` since the demo began; `downstream` in a word or two; `isLast` is shown in any case.
     */
    show(seconds: number, counts: DemoCounts, downstream: string, isLast = false): void {
      if (io.isTerminal) {
        const lines = rows.map(
          ([name, meaning]) =>
            `  ${name.padEnd(11)} ${withCommas(counts[name]).padStart(7)}  ${meaning}`,
        );
        drawing.draw(
          [`  ${`${seconds.toFixed(1)} s`.padStart(19)}  downstream ${downstream}`, ...lines].join(
            "\n",
          ),
        );
      } else if (Math.floor(seconds) !== shown || isLast) {
        shown = Math.floor(seconds);
        io.out(
          `${seconds.toFixed(1)}s ${rows.map(([name]) => `${name}=${counts[name]}`).join(" ")} downstream=${downstream}`,
        );
      }
    },
    say: io.isTerminal ? drawing.print : io.out,
  };
}
