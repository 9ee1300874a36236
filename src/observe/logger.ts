import { write } from "node:fs";
import { type DestinationStream, type Logger, pino } from "pino";
import {
  type IdSort,
  maskText,
  maskWamid,
  shownDeliveryId,
  shownId,
  shownKind,
} from "../model/mask.ts";
import { createRedactor, type Redactor } from "../model/redact.ts";

export type { Logger } from "pino";

interface LogSettings {
  readonly level: string;
  readonly pii: "masked" | "clear";
}

/**
 * Masks personal data in log lines according to the setting `log.pii`. Secrets are always removed.
 */
export interface Privacy {
  wamid(text: string): string;
  id(sort: IdSort, text: string): string;
  /** A delivery's id, which contains the event's id. */
  delivery(id: string): string;
  kind(text: string): string;
  /** Free text that may contain wamids, phone numbers or secrets, such as an error. */
  text(text: string): string;
}

export function createPrivacy(pii: LogSettings["pii"], redactor: Pick<Redactor, "text">): Privacy {
  const unchanged = (text: string) => text;
  return pii === "clear"
    ? {
        wamid: unchanged,
        id: (_sort, text) => text,
        delivery: unchanged,
        kind: unchanged,
        text: redactor.text,
      }
    : {
        wamid: maskWamid,
        id: shownId,
        delivery: shownDeliveryId,
        kind: shownKind,
        text: (text) => maskText(redactor.text(text)),
      };
}

/**
 * Writes JSON lines to `stream`, without the secrets that `redactor` knows. Errors are logged with
 * masked message and stack.
 */
export function createLogger(
  settings: LogSettings,
  stream: DestinationStream,
  redactor: Redactor = createRedactor({}),
): Logger {
  const privacy = createPrivacy(settings.pii, redactor);
  return pino(
    {
      level: settings.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: (error: unknown) => errorLine(error, privacy) },
    },
    // Redacts whole lines, so that a new field cannot be forgotten.
    { write: (line) => stream.write(redactor.line(line)) },
  );
}

/** An error with its causes. Other fields (arguments of a command, a request) are dropped. */
function errorLine(error: unknown, privacy: Pick<Privacy, "text">, depth = 0): unknown {
  if (!(error instanceof Error)) return privacy.text(String(error));
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  return {
    type: privacy.text(error.name),
    message: privacy.text(error.message),
    ...(typeof code === "string" ? { code: privacy.text(code) } : {}),
    stack: privacy.text(error.stack ?? ""),
    ...(cause === undefined || depth === deepestCause
      ? {}
      : { cause: errorLine(cause, privacy, depth + 1) }),
  };
}

const deepestCause = 3;

export interface LogStream extends DestinationStream {
  /** Resolves when everything is written, or after `endWithinMs`. */
  end(): Promise<void>;
}

/** Most characters buffered while the reader takes none; further lines are dropped. */
const mostBuffered = 4 * 1024 * 1024;
const retryMs = 20;
const nothing = Buffer.alloc(0);

/**
 * Writes log lines to a file descriptor without blocking: a slow terminal must not slow down
 * receiving. Lines that cannot be written (disk full, closed pipe) are dropped. Pino's own stream
 * throws there and then hangs in its last flush.
 */
export function logStream(fd: number, endWithinMs = 1_000): LogStream {
  let buffered: string[] = [];
  let size = 0;
  let inFlight: Buffer = nothing;
  let isWriting = false;
  /** The last line was written in part, so the next one starts with a newline. */
  let isCut = false;
  let onIdle: (() => void) | null = null;

  function next(): void {
    if (inFlight.length === 0) {
      inFlight = Buffer.from((isCut && size > 0 ? "\n" : "") + buffered.join(""));
      buffered = [];
      size = 0;
    }
    isWriting = inFlight.length > 0;
    if (isWriting) write(fd, inFlight, written);
    else onIdle?.();
  }

  function written(error: NodeJS.ErrnoException | null, bytes: number): void {
    if (error?.code === "EAGAIN") {
      // A reader that takes nothing must not keep a stopped process alive.
      setTimeout(next, retryMs).unref();
      return;
    }
    if (bytes > 0) isCut = inFlight[bytes - 1] !== 0x0a;
    inFlight = error === null ? inFlight.subarray(bytes) : nothing;
    next();
  }

  return {
    write(line) {
      if (size + line.length > mostBuffered) return;
      buffered.push(line);
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
