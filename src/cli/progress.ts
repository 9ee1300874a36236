import type { Io } from "./io.ts";

const drawEveryMs = 100;
const lineEveryMs = 2_000;
const width = 30;

/** One line of a terminal that is drawn over itself. */
interface DrawnLine {
  draw(text: string): void;
  /** What is drawn stays: something else is printed next. */
  leave(): void;
  /** Takes it off the screen. */
  clear(): void;
  readonly isDrawn: () => boolean;
}

export function createDrawnLine(io: Pick<Io, "out">): DrawnLine {
  let onScreen = false;
  return {
    draw(text) {
      io.out(`${onScreen ? "\x1b[1A\x1b[0J" : ""}${text}`);
      onScreen = true;
    },
    leave() {
      onScreen = false;
    },
    clear() {
      // `out` ends the line, which would leave an empty one.
      if (onScreen) io.out("\x1b[1A\x1b[0J\x1b[1A");
      onScreen = false;
    },
    isDrawn: () => onScreen,
  };
}

/** `[#####.....]` for a part from 0 to 1. */
export function barText(part: number): string {
  const full = Math.round(Math.min(1, part) * width);
  return `[${"#".repeat(full)}${".".repeat(width - full)}]`;
}

/** The bar, the percentage and the text; a null part leaves the text alone. */
export function partText(part: number | null, text: string): string {
  return part === null ? text : `${barText(part)} ${percentText(part).padStart(4)}  ${text}`;
}

function percentText(part: number): string {
  return `${Math.floor(part * 100)}%`;
}

/** True when progress shown at `shownAt` is old enough to be shown again. */
export function isDue(isDrawn: boolean, shownAt: number, now: number): boolean {
  return now - shownAt >= (isDrawn ? drawEveryMs : lineEveryMs);
}

interface ProgressBar {
  /** `part` from 0 to 1; null: unknown. */
  show(part: number | null, text: string): void;
  /** Takes it off the screen, so that what is printed next stands alone. */
  end(): void;
  /** What is drawn stays, and the next bar is drawn below it. */
  leave(): void;
}

/** A bar that is drawn over itself on a terminal; in a pipe, and with `--json`, a plain line on standard error every two seconds. */
export function createProgressBar(io: Io, isJson: boolean, now: () => number = () => performance.now()): ProgressBar {
  const isDrawn = io.isTerminal && !isJson;
  const line = createDrawnLine(io);
  let shownAt = isDrawn ? Number.NEGATIVE_INFINITY : now();
  return {
    show(part, text) {
      if (!isDue(isDrawn, shownAt, now())) return;
      shownAt = now();
      if (isDrawn) line.draw(partText(part, text));
      else io.err(part === null ? text : `${percentText(part)}  ${text}`);
    },
    end: line.clear,
    leave: line.leave,
  };
}
