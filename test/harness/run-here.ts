import { main } from "../../src/cli/main.ts";

export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * A `wamid-relay` command in the test's own process: for what it answers and does. That a real
 * process ends with that exit code and these texts, a test per command proves with one. One at a
 * time, because the exit code is the process's.
 */
export async function runHere(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  let out = "";
  let err = "";
  const before = new Map(signals.map((name) => [name, process.listeners(name)]));
  try {
    const code = await main(args, {
      out: (line) => {
        out += `${line}\n`;
      },
      err: (line) => {
        err += `${line}\n`;
      },
      isTerminal: false,
      env: { ...process.env, ...env },
      readStdin: async () => Buffer.alloc(0),
    });
    return { code, out, err };
  } finally {
    // What a command leaves for its process's end would be the test runner's.
    process.exitCode = undefined;
    for (const name of signals) {
      for (const listener of process.listeners(name))
        if (!before.get(name)?.includes(listener)) process.off(name, listener);
    }
  }
}
