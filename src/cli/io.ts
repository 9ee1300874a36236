/** What a command may use of the outside world; a test passes its own. */
export interface Io {
  /** Writes one line to standard output. */
  out(line: string): void;
  /** Writes one line to standard error. */
  err(line: string): void;
  /** True when standard output is a terminal: progress may be drawn. */
  readonly isTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The whole of standard input. */
  readStdin(): Promise<Buffer>;
}

/** A failure with a message for the person at the terminal; exit code 1, no stack. */
export class CommandFailed extends Error {
  override readonly name = "CommandFailed";
}

export function processIo(): Io {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    // Whoever read it has seen enough, as in `events list | head`.
    if (error.code === "EPIPE") return;
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
  };
}
