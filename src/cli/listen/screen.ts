import type { Io } from "../io.ts";
import { asLine } from "../output.ts";

interface Screen {
  /** What the command is for: an event, an answer. */
  line(text: string): void;
  /** How things stand: beside the lines on a terminal, on standard error in a pipe. */
  note(text: string): void;
  /** One value of `--json`. */
  json(value: unknown): void;
  /** Draws the last line of the terminal anew, where there is one. */
  drawStatus(): void;
  /** Draws no more. */
  end(): void;
}

/** Lines, and under them on a terminal one of `status()` that is drawn over itself. */
export function createScreen(io: Io, { isInteractive, status }: { isInteractive: boolean; status: () => string }): Screen {
  let isDrawn = false;
  let isEnded = false;
  const over = (): string => (isDrawn ? "\x1b[1A\x1b[0J" : "");

  function drawStatus(): void {
    if (!isInteractive || isEnded) return;
    io.out(`${over()}${status()}`);
    isDrawn = true;
  }

  function line(text: string): void {
    io.out(`${over()}${text}`);
    isDrawn = false;
    drawStatus();
  }

  return {
    line,
    note(text) {
      if (isInteractive) line(text);
      else io.err(text);
    },
    json: (value) => io.out(asLine(JSON.stringify(value))),
    drawStatus,
    end() {
      isEnded = true;
    },
  };
}
