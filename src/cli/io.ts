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

/** Whether an error's message is for the user. Those of a store say what to do. */
export function isForUser(error: unknown): error is Error {
  return error instanceof Error && ["CommandFailed", "StoreRefused", "StoreUnavailable"].includes(error.name);
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
    async readStdin() {
      const chunks: Buffer[] = [];
      for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks);
    },
    closed,
  };
}

/**
 * A second signal means "now". One that comes this soon is a duplicate: Ctrl-C under `npm run` reaches the process
 * from the terminal and from npm.
 */
const doubledSignalMs = 1_000;
/** Minimum lifetime after the first signal: in its last moments Node has no listeners, and a duplicate would kill it. */
const heldMs = 100;

const shellCheckMs = 500;

/**
 * Resolves on SIGINT or SIGTERM; another signal ends the process at once. Also resolves when `closed` does, and when the shell between this process and
 * `npm run` ends: npm sends its signals to the shell, and some shells die of one without passing it on.
 */
export function stopSignal(closed?: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    void closed?.then(resolve);
    let stoppedAt: number | null = null;
    const stop = (): void => {
      if (stoppedAt === null) {
        stoppedAt = performance.now();
        setTimeout(() => {}, heldMs);
        resolve();
      } else if (performance.now() - stoppedAt > doubledSignalMs) process.exit(1);
    };
    process.on("SIGTERM", stop).on("SIGINT", stop);
    if (process.env["npm_lifecycle_event"] === undefined || process.platform === "win32") return;
    const shell = process.ppid;
    const check = setInterval(() => {
      if (process.ppid === shell) return;
      clearInterval(check);
      stop();
    }, shellCheckMs).unref();
  });
}

/** Its signal is aborted by SIGINT or SIGTERM, whose name is the reason, until it is disposed. */
export function interruptible(): { readonly signal: AbortSignal } & Disposable {
  const stopping = new AbortController();
  const stop = (name: NodeJS.Signals): void => stopping.abort(name);
  process.on("SIGINT", stop).on("SIGTERM", stop);
  return { signal: stopping.signal, [Symbol.dispose]: () => void process.off("SIGINT", stop).off("SIGTERM", stop) };
}

/** Controls, and what turns the direction of text: stored text comes from outside, and could rewrite the screen. */
const acting = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

const short: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** One line of text, with what a terminal would act upon written as `\n` or `\u001b`. */
export function printable(text: string): string {
  return text.replace(acting, (character) => short[character] ?? asEscape(character));
}

/** `io` whose lines a terminal shows as they are, whatever is in them. */
export function safeIo(io: Io): Io {
  return { ...io, out: (line) => io.out(printable(line)), err: (line) => io.err(printable(line)), draw: io.draw ?? io.out };
}

function asEscape(character: string): string {
  return Array.from({ length: character.length }, (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");
}
