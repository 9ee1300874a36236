import type { Io } from "./io.ts";

interface ProgressBar {
  /** `part` from 0 to 1. */
  show(part: number, text: string): void;
  /** Takes it off the screen, so that what is printed next stands alone. */
  end(): void;
}

const drawEveryMs = 100;
const lineEveryMs = 2_000;
const width = 30;

/** A bar that is drawn over itself on a terminal; in a pipe, and with `--json`, a plain line on standard error every two seconds. */
export function createProgressBar(io: Io, isJson: boolean, now: () => number = () => performance.now()): ProgressBar {
  const isDrawn = io.isTerminal && !isJson;
  let shownAt = isDrawn ? Number.NEGATIVE_INFINITY : now();
  let onScreen = false;
  return {
    show(part, text) {
      if (now() - shownAt < (isDrawn ? drawEveryMs : lineEveryMs)) return;
      shownAt = now();
      const percent = `${Math.floor(part * 100)}%`;
      if (!isDrawn) {
        io.err(`${percent}  ${text}`);
        return;
      }
      const full = Math.round(Math.min(1, part) * width);
      io.out(`${onScreen ? "\x1b[1A\x1b[0J" : ""}[${"#".repeat(full)}${".".repeat(width - full)}] ${percent.padStart(4)}  ${text}`);
      onScreen = true;
    },
    end() {
      // `out` ends the line, which would leave an empty one.
      if (onScreen) io.out("\x1b[1A\x1b[0J\x1b[1A");
      onScreen = false;
    },
  };
}
