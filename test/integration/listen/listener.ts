import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished } from "vitest";
import type { Io } from "../../../src/cli/io.ts";
import { main } from "../../../src/cli/main.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import type { AnyRelay } from "../../harness/relay-here.ts";
import { entry } from "../../harness/relay-process.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

/** A real `wamid-relay listen`, killed at the test's end. */
export interface ListenProcess {
  out(): string;
  err(): string;
  /** What it printed with `--json`. */
  said(type?: string): Record<string, unknown>[];
  /** Resolves once it is live; `times`: so often so far. */
  live(times?: number): Promise<void>;
  /** SIGTERM; gives the exit code. */
  stop(): Promise<number | null>;
  kill9(): Promise<void>;
  readonly ended: Promise<number | null>;
}

export function startListen(
  relayUrl: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ListenProcess {
  const child: ChildProcess = spawn(
    process.execPath,
    [entry, "listen", "--relay", relayUrl, ...args],
    {
      env: { ...process.env, RELAY_TOKEN: relayToken, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let out = "";
  let err = "";
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    out += chunk;
  });
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    err += chunk;
  });
  const ended = once(child, "close").then(([code]) => code as number | null);
  const kill9 = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  onTestFinished(kill9);
  const stop = () => {
    child.kill("SIGTERM");
    return ended;
  };
  return {
    ...listening(
      args,
      () => out,
      () => err,
    ),
    stop,
    kill9,
    ended,
  };
}

const messages = createMessages("listen");

/** Posts so many events one after the other and gives their ids. */
export async function post(relay: Pick<AnyRelay, "webhookUrl">, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const event = messages.event();
    expect((await postEvent(relay.webhookUrl, event)).word).toBe("accepted");
    ids.push(event.id);
  }
  return ids;
}

/**
 * Resolves once the relay has stored this position of a name: at its end, a listener waits two
 * seconds for that and no longer.
 */
export async function standsAt(
  relay: Pick<AnyRelay, "ask">,
  name: string,
  seq: number,
): Promise<void> {
  // A position never goes back.
  const position = async () =>
    (await relay.ask(`/v1/listen/cursors/${name}`, { method: "POST", body: { seq: 0 } })).body;
  await until(
    `${name} stands at ${seq}`,
    async () => ((await position()) as { seq: number }).seq === seq,
  );
}

let lastStarted: Promise<unknown> = Promise.resolve();

/**
 * The same command in the test's own process, without a URL for the relay of the settings: for what
 * it hears and does, where no process is needed to prove it.
 */
export function startListenHere(
  relayUrl: string | null,
  args: readonly string[],
): Omit<ListenProcess, "kill9"> {
  let out = "";
  let err = "";
  const io: Io = {
    out: (line) => {
      out += `${line}\n`;
    },
    err: (line) => {
      err += `${line}\n`;
    },
    isTerminal: false,
    env: { RELAY_TOKEN: relayToken },
    readStdin: async () => Buffer.alloc(0),
  };
  let isOver = false;
  const { promise: ended, resolve, reject } = Promise.withResolvers<number | null>();
  // What it does at SIGTERM is told from the others' by starting one after the other.
  const started = lastStarted.then(async () => {
    const before = process.listeners("SIGTERM");
    main(["listen", ...(relayUrl === null ? [] : ["--relay", relayUrl]), ...args], io)
      .then(resolve, reject)
      .finally(() => {
        isOver = true;
      });
    return until("it waits for the signal to end", () => {
      const added = process.listeners("SIGTERM").find((listener) => !before.includes(listener));
      return added ?? (isOver ? () => {} : null);
    });
  });
  lastStarted = started;
  async function stop(): Promise<number | null> {
    const onSignal = await started;
    for (const name of ["SIGTERM", "SIGINT"] as const) process.off(name, onSignal);
    if (!isOver) onSignal("SIGTERM");
    return ended;
  }
  onTestFinished(async () => void (await stop()));
  return {
    ...listening(
      args,
      () => out,
      () => err,
    ),
    stop,
    ended,
  };
}

function listening(args: readonly string[], out: () => string, err: () => string) {
  const said = (type?: string) =>
    out()
      .slice(0, out().lastIndexOf("\n") + 1)
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter((each) => type === undefined || each["type"] === type);
  return {
    out,
    err,
    said,
    async live(times = 1) {
      const isJson = args.includes("--json");
      const lives = () =>
        isJson
          ? said("hello").length
          : (`${out()}\n${err()}`.match(/^\S+ (listening to|live again)/gm) ?? []).length;
      await until(`it is live for the ${times}. time`, () => lives() >= times);
    },
  };
}
