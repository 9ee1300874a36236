import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { FromChild, ToChild } from "./child.ts";

export interface Child {
  readonly pid: number;
  readonly port: number;
  ask(order: unknown): Promise<unknown>;
  stop(): Promise<void>;
}

/**
 * Starts a file of `bench/` as a process of its own, with flags for Node, and waits until it says
 * that it is ready.
 */
export async function startChild(
  file: string,
  args: readonly string[] = [],
  port = 0,
  execArgv: readonly string[] = [],
): Promise<Child> {
  const script = fileURLToPath(new URL(`../${file}`, import.meta.url));
  // Advanced serialisation carries typed arrays whole.
  const child = fork(script, [String(port), ...args], {
    serialization: "advanced",
    execArgv: [...execArgv],
  });
  const waiting = new Map<
    number,
    { resolve: (answer: unknown) => void; reject: (error: Error) => void }
  >();
  const { promise: readyPort, resolve: isReady, reject: isGone } = Promise.withResolvers<number>();
  let asked = 0;
  child.on("message", (message: FromChild) => {
    if ("ready" in message) return isReady(message.ready.port);
    const asker = waiting.get(message.to);
    waiting.delete(message.to);
    if ("failed" in message) asker?.reject(new Error(`${file}: ${message.failed}`));
    else asker?.resolve(message.answer);
  });
  child.once("exit", (code, signal) => {
    const error = new Error(`${file} ended (${signal ?? code})`);
    isGone(error);
    for (const asker of waiting.values()) asker.reject(error);
  });
  const ownPort = await readyPort;
  return {
    pid: child.pid as number,
    port: ownPort,
    ask(order) {
      const { promise, resolve, reject } = Promise.withResolvers<unknown>();
      if (!child.connected) return Promise.reject(new Error(`${file} has ended`));
      asked += 1;
      waiting.set(asked, { resolve, reject });
      const message: ToChild = { ask: order, number: asked };
      child.send(message);
      return promise;
    },
    stop: () => endProcess(child, "SIGKILL"),
  };
}

/** Ends a process of ours, and resolves when it is gone. */
export async function endProcess(
  child: ChildProcess,
  signal: "SIGTERM" | "SIGKILL",
): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill(signal);
  await exited;
}
