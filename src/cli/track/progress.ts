import type { Io } from "../io.ts";
import type { TrackSums } from "./track-file.ts";

interface TrackProgress {
  /** `part`: how much of the file has been read, from 0 to 1; null when that is not known. */
  show(sums: TrackSums, part: number | null): void;
  /** What is on the terminal stays, and is not drawn over: something else is going to be printed. */
  leave(): void;
}

const drawEveryMs = 100;
const lineEveryMs = 2_000;
const width = 30;

const withCommas = (value: number) => value.toLocaleString("en-US");

/** A bar that is drawn over itself on a terminal; in a pipe, and with `--json`, a plain line on standard error every two seconds. */
export function createTrackProgress(io: Io, isJson: boolean, now: () => number): TrackProgress {
  const isDrawn = io.isTerminal && !isJson;
  const startedAt = now();
  let shownAt = isDrawn ? Number.NEGATIVE_INFINITY : startedAt;
  let onScreen = false;
  return {
    show(sums, part) {
      if (now() - shownAt < (isDrawn ? drawEveryMs : lineEveryMs)) return;
      shownAt = now();
      const seconds = (now() - startedAt) / 1000;
      const speed = seconds < 0.2 ? "" : `  ${withCommas(Math.round(sums.lines / seconds))}/s`;
      const refused = sums.conflict + sums.invalid;
      const text = `${withCommas(sums.lines)} lines${speed}${refused === 0 ? "" : `  ${withCommas(refused)} refused`}`;
      if (!isDrawn) {
        io.err(part === null ? text : `${Math.floor(part * 100)}%  ${text}`);
        return;
      }
      const full = Math.round((part ?? 0) * width);
      const bar = part === null ? "" : `[${"#".repeat(full)}${".".repeat(width - full)}] ${String(Math.floor(part * 100)).padStart(3)}%  `;
      io.out(`${onScreen ? "\x1b[1A\x1b[0J" : ""}${bar}${text}`);
      onScreen = true;
    },
    leave() {
      onScreen = false;
    },
  };
}
