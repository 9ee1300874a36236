import type { Io } from "./io.ts";
import { withCommas } from "./output.ts";

export function createDrawing(io: Pick<Io, "out" | "draw">) {
  const write = io.draw ?? io.out;
  let height = 0;
  // Up over the drawn lines, and clear from there to the end of the screen.
  const over = (): string => (height === 0 ? "" : `\x1b[${height}A\x1b[0J`);
  return {
    draw(text: string): void {
      write(over() + text);
      height = text.split("\n").length;
    },
    print(line: string): void {
      write(over() + line);
      height = 0;
    },
    /** The drawn text stays: something else is printed next. */
    leave(): void {
      height = 0;
    },
    clear(): void {
      // `write` ends the line, which would leave an empty one.
      if (height > 0) write(`${over()}\x1b[1A`);
      height = 0;
    },
  };
}

const drawEveryMs = 100;
const lineEveryMs = 2_000;
const width = 30;

/**
 * A bar that is drawn over itself on a terminal; in a pipe, and with `--json`, a plain line on
 * standard error every two seconds. `isPatient`: the first one takes its time too.
 */
export function createProgressBar(
  io: Io,
  isJson: boolean,
  { now = () => performance.now(), isPatient = false } = {},
) {
  const isDrawn = io.isTerminal && !isJson;
  const drawing = createDrawing(io);
  let shownAt = isDrawn && !isPatient ? Number.NEGATIVE_INFINITY : now();
  return {
    show(part: number | null, text: string, isLast = false): void {
      if (now() - shownAt < (isDrawn ? drawEveryMs : lineEveryMs) && !isLast) return;
      shownAt = now();
      const percent = part === null ? "" : `${Math.floor(part * 100)}%`;
      const full = Math.round(Math.min(1, part ?? 0) * width);
      if (part === null) (isDrawn ? drawing.draw : io.err)(text);
      else if (!isDrawn) io.err(`${percent}  ${text}`);
      else
        drawing.draw(
          `[${"#".repeat(full)}${".".repeat(width - full)}] ${percent.padStart(4)}  ${text}`,
        );
    },
    end: drawing.clear,
    leave: drawing.leave,
  };
}

/** `12,345 lines  1,234/s  3 refused`: how many in so many ms, and how many of them failed. */
export function speedText(
  count: number,
  what: string,
  tookMs: number,
  failed: number,
  failedAs: string,
): string {
  const speed = tookMs < 200 ? "" : `  ${withCommas(Math.round((count * 1000) / tookMs))}/s`;
  return `${withCommas(count)} ${what}${speed}${failed === 0 ? "" : `  ${withCommas(failed)} ${failedAs}`}`;
}
