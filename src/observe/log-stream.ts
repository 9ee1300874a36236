import { write } from "node:fs";
import type { DestinationStream } from "pino";

export interface LogStream extends DestinationStream {
  /** Resolves when what was written is out, or after a second when it does not get out. */
  end(): Promise<void>;
}

/** Most characters kept while the other end takes none; what comes then is lost. */
const mostWaiting = 4 * 1024 * 1024;
const againMs = 20;
const endWithinMs = 1_000;
const nothing = Buffer.alloc(0);

/**
 * Log lines to a file descriptor without waiting for it: a slow terminal must not slow receiving. Lines
 * that cannot be written (disk full, reader gone) are lost, and the relay goes on: pino's own stream
 * throws there, and then hangs for ever in its last flush.
 */
export function logStream(fd: number): LogStream {
  let waiting: string[] = [];
  let size = 0;
  let underWay: Buffer = nothing;
  let isWriting = false;
  /** The last line got out in part: the next one begins on a line of its own. */
  let isCut = false;
  let onIdle: (() => void) | null = null;

  function next(): void {
    if (underWay.length === 0) {
      underWay = Buffer.from((isCut && size > 0 ? "\n" : "") + waiting.join(""));
      waiting = [];
      size = 0;
    }
    isWriting = underWay.length > 0;
    if (isWriting) write(fd, underWay, written);
    else onIdle?.();
  }

  function written(error: NodeJS.ErrnoException | null, bytes: number): void {
    if (error?.code === "EAGAIN") {
      setTimeout(next, againMs);
      return;
    }
    if (bytes > 0) isCut = underWay[bytes - 1] !== 0x0a;
    underWay = error === null ? underWay.subarray(bytes) : nothing;
    next();
  }

  return {
    write(line) {
      if (size + line.length > mostWaiting) return;
      waiting.push(line);
      size += line.length;
      if (!isWriting) next();
    },
    end() {
      if (!isWriting) return Promise.resolve();
      return new Promise((resolve) => {
        const late = setTimeout(resolve, endWithinMs);
        onIdle = () => {
          clearTimeout(late);
          resolve();
        };
      });
    },
  };
}

export function stdoutStream(): LogStream {
  return logStream(1);
}
