import type { Io } from "../io.ts";

interface ReconcileProgress {
  /** After each step of some seconds. */
  show(asked: number, isLast: boolean): void;
}

const width = 30;

/** A bar that is drawn over itself on a terminal; in a pipe, and with `--json`, a plain line on standard error for each step of some seconds. */
export function createReconcileProgress(io: Io, isJson: boolean, total: number): ReconcileProgress {
  const isDrawn = io.isTerminal && !isJson;
  let onScreen = false;
  return {
    show(asked, isLast) {
      // What was done in one step needs no progress.
      if (isLast && !onScreen) return;
      const part = total === 0 ? 1 : Math.min(1, asked / total);
      const text = `${asked.toLocaleString("en-US")} of ${total.toLocaleString("en-US")} asked`;
      if (!isDrawn) {
        io.err(text);
        return;
      }
      const full = Math.round(part * width);
      io.out(`${onScreen ? "\x1b[1A\x1b[0J" : ""}[${"#".repeat(full)}${".".repeat(width - full)}] ${text}`);
      onScreen = true;
    },
  };
}
