import { buffer } from "node:stream/consumers";
import { getSystemErrorMessage } from "node:util";

/** A command's access to the outside world; tests pass their own. */
export interface Io {
  out(line: string): void;
  err(line: string): void;
  /** Writes text as it is, with what a terminal acts upon: for drawing. Default: `out`. */
  draw?(text: string): void;
  readonly isTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readStdin(): Promise<Buffer>;
  /** Resolves when the reader of standard output closes it, as in `listen | head -1`. */
  readonly closed?: Promise<void>;
}

/** Of an argument or option. */
export const emptyText = "It is empty; is a variable not set?";

export class CommandFailed extends Error {
  override readonly name = "CommandFailed";
}

/** In the system's words, without the call and the path that Node's message repeats. */
export function fileFailure(what: string, error: unknown): CommandFailed {
  const { errno, message } = error as NodeJS.ErrnoException;
  return new CommandFailed(
    `${what}: ${errno === undefined ? message : getSystemErrorMessage(errno)}`,
    { cause: error },
  );
}

/** Whether an error's message is for the user. Those of a store say what to do. */
export function isForUser(error: unknown): error is Error {
  return (
    error instanceof Error &&
    ["CommandFailed", "StoreRefused", "StoreUnavailable"].includes(error.name)
  );
}

export function processIo(): Io {
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") return close();
    process.exitCode = 1;
    process.stderr.write(`wamid-relay: cannot write to standard output: ${error.message}\n`);
  });
  return {
    out: (line) => void process.stdout.write(`${line}\n`),
    err: (line) => void process.stderr.write(`${line}\n`),
    isTerminal: process.stdout.isTTY === true,
    env: process.env,
    readStdin: () => buffer(process.stdin),
    closed,
  };
}

/**
 * A second signal means "now". One that comes this soon is a duplicate: Ctrl-C under `npm run`
 * reaches the process from the terminal and from npm.
 */
const doubledSignalMs = 1_000;
/**
 * Minimum lifetime after the first signal: in its last moments Node has no listeners, and a
 * duplicate would kill it.
 */
const heldMs = 100;

const shellCheckMs = 500;

/**
 * Aborted by SIGINT or SIGTERM, whose name is the reason; another signal ends the process at once.
 * Also aborted when `closed` resolves, and when the shell between this process and `npm run` ends:
 * npm sends its signals to the shell, and some shells die of one without passing it on.
 */
export function stopSignal(closed?: Promise<void>): AbortSignal {
  const stopping = new AbortController();
  void closed?.then(() => stopping.abort());
  let stoppedAt: number | null = null;
  const stop = (name: NodeJS.Signals): void => {
    if (stoppedAt === null) {
      stoppedAt = performance.now();
      setTimeout(() => {}, heldMs);
      stopping.abort(name);
    } else if (performance.now() - stoppedAt > doubledSignalMs) process.exit(1);
  };
  process.on("SIGTERM", stop).on("SIGINT", stop);
  if (process.env["npm_lifecycle_event"] !== undefined && process.platform !== "win32") {
    const shell = process.ppid;
    const check = setInterval(() => {
      if (process.ppid === shell) return;
      clearInterval(check);
      stop("SIGTERM");
    }, shellCheckMs).unref();
  }
  return stopping.signal;
}

/**
 * Controls, and what turns the direction of text: stored text comes from outside, and could rewrite
 * the screen.
 */
const acting = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

const short: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** One line of text, with what a terminal would act upon written as `\n` or `\u001b`. */
export function printable(text: string): string {
  return text.replace(acting, (character) => short[character] ?? asEscape(character));
}

/** `io` whose lines a terminal shows as they are, whatever is in them. */
export function safeIo(io: Io): Io {
  return {
    ...io,
    out: (line) => io.out(printable(line)),
    err: (line) => io.err(printable(line)),
    draw: io.draw ?? io.out,
  };
}

function asEscape(character: string): string {
  return Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");
}
