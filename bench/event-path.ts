import { setTimeout as wait } from "node:timers/promises";
import { requestFor, wamidsOf } from "./events.ts";
import { readFlags } from "./flags.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { type Relay, startRelay } from "./process/start-relay.ts";
import { printResult } from "./report.ts";
import type { Sunk } from "./servers/sink.ts";

const usage = `Files of src that one webhook passes through, from the request to the delivery: node bench/event-path.ts
  --idle <ms>   how long idle work is observed first (12000)
  --files       also print their names
  --short       observe for 2000 ms, for CI

A file counts when a function of it runs for each of two events and did not run while the relay was idle.
Files of types only and of constants run no function and do not count.`;

const flags = readFlags(usage, {
  idle: { type: "string" },
  files: { type: "boolean" },
  short: { type: "boolean" },
});
const idleMs = Number(flags.idle ?? (flags.short === true ? 2000 : 12_000));
/** Timers that follow a delivery (settling in groups) end within it. */
const restMs = 1500;

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const sink = await startChild("servers/sink.ts");
stack.defer(() => sink.stop());
const files = await filesOnPath();
console.log(`${files.length} files`);
if (flags.files === true) for (const file of files) console.log(`  ${file}`);
printResult("event-path", machine, { files: files.length }, {});

async function filesOnPath(): Promise<string[]> {
  const destination = `http://127.0.0.1:${sink.port}/`;
  const relay = await startRelay({
    destination,
    concurrency: 8,
    nodeFlags: ["--inspect=127.0.0.1:0"],
  });
  try {
    await relay.register(wamidsOf({ run: 1, count: 2 }));
    using profiler = await connectProfiler(relay);
    await profiler.call("Profiler.enable");
    await profiler.call("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    // The first events start what stays: connections, prepared statements, compiled rules.
    for (const sequence of [1, 501, 1001, 0]) await deliver(relay, sequence);
    await profiler.take();
    await wait(idleMs);
    const idle = await profiler.take();
    await deliver(relay, 500);
    const path = await profiler.take();
    await deliver(relay, 1000);
    const again = await profiler.take();
    const both = [...path].filter((called) => again.has(called) && !idle.has(called));
    return [...new Set(both.map((called) => called.slice(0, called.indexOf("#"))))].sort();
  } finally {
    await relay.stop();
  }
}

/**
 * Posts one event of a registered message, and waits until it is delivered and the relay is
 * at rest.
 */
async function deliver(relay: Relay, sequence: number): Promise<void> {
  const before = ((await sink.ask({ counts: null })) as Sunk).requests;
  const { body, headers } = requestParts(sequence);
  const answer = await fetch(`http://127.0.0.1:${relay.port}/webhooks/main`, {
    method: "POST",
    headers,
    body,
  });
  if (answer.status !== 200)
    throw new Error(`the webhook was answered ${answer.status}: ${await answer.text()}`);
  await answer.arrayBuffer();
  while (((await sink.ask({ counts: null })) as Sunk).requests === before) await wait(20);
  await wait(restMs);
}

/** The header lines and the body of a request written as bytes. */
function requestParts(sequence: number): { headers: Record<string, string>; body: string } {
  const [head = "", body = ""] = requestFor(1, sequence).toString("utf8").split("\r\n\r\n");
  const lines = head
    .split("\r\n")
    .slice(1)
    .map((line) => line.split(": ") as [string, string]);
  return {
    headers: Object.fromEntries(
      lines.filter(([name]) => name !== "host" && name !== "content-length"),
    ),
    body,
  };
}

interface Profiler extends Disposable {
  call(method: string, params?: object): Promise<unknown>;
  /** The functions of `src` called since the last time, as `<file>#<function>@<offset>`. */
  take(): Promise<Set<string>>;
}

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { startOffset: number; count: number }[];
    }[];
  }[];
}

/**
 * Connects to the inspector of a process started with `--inspect` (Chrome DevTools Protocol, domain
 * Profiler).
 */
async function connectProfiler(relay: Relay): Promise<Profiler> {
  const address = /ws:\/\/\S+/.exec(relay.output())?.[0];
  if (address === undefined)
    throw new Error(`the relay printed no address of its inspector: ${relay.output()}`);
  const socket = new WebSocket(address);
  const pending = new Map<
    number,
    (answer: { result?: unknown; error?: { message: string } }) => void
  >();
  let calls = 0;
  socket.addEventListener("message", ({ data }) => {
    const answer = JSON.parse(String(data));
    pending.get(answer.id)?.(answer);
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve, { once: true });
    socket.addEventListener("error", reject, { once: true });
  });
  const call = async (method: string, params = {}) => {
    calls += 1;
    const id = calls;
    const answered = new Promise<{ result?: unknown; error?: { message: string } }>(
      (resolve) => void pending.set(id, resolve),
    );
    socket.send(JSON.stringify({ id, method, params }));
    const { result, error } = await answered;
    pending.delete(id);
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result;
  };
  return {
    call,
    async take() {
      const { result } = (await call("Profiler.takePreciseCoverage")) as Coverage;
      const called = new Set<string>();
      for (const { url, functions } of result) {
        const file = /^file:.*\/(src\/.+)$/.exec(url)?.[1];
        if (file === undefined) continue;
        for (const { functionName, ranges } of functions) {
          // The whole file is listed as a function without a name, which starts at 0.
          const [whole] = ranges;
          if (
            whole !== undefined &&
            whole.count > 0 &&
            !(functionName === "" && whole.startOffset === 0)
          ) {
            called.add(`${file}#${functionName}@${whole.startOffset}`);
          }
        }
      }
      return called;
    },
    [Symbol.dispose]: () => socket.close(),
  };
}
