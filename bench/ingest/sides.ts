import { setTimeout as wait } from "node:timers/promises";
import { freePort } from "../../test/setup/free-port.ts";
import { startRedis } from "../../test/setup/redis.ts";
import { type EventSet, wamidsOf } from "../events.ts";
import { startChild } from "../process/start-child.ts";
import { type Relay, startRelay } from "../process/start-relay.ts";
import type { Sunk } from "../servers/sink.ts";

/** One server under test. */
export interface Side {
  readonly name: SideName;
  readonly port: number;
  readonly pid: number;
  /** More requests a second than it will ever answer here: how many are kept ready for it. */
  readonly mostPerSecond: number;
  /** Whatever must be known to it before the events come. */
  expect(set: EventSet): Promise<void>;
  /**
   * Rejects unless it holds exactly as many events as it has acknowledged since it was started;
   * then brings it to rest. Null where nothing is stored.
   */
  readonly settle: ((acknowledged: number) => Promise<void>) | null;
}

/** In the order of the README's table. */
export const sideNames = ["bare", "fastify", "fastify+bullmq", "relay", "relay+delivery"] as const;
export type SideName = (typeof sideNames)[number];

const concurrency = 64;
const drainWithinMs = 120_000;

/** Starts a side; everything it needs is ended with `stack`. */
export async function startSide(name: SideName, stack: AsyncDisposableStack): Promise<Side> {
  switch (name) {
    case "bare":
    case "fastify":
      return startStoreless(name, stack);
    case "fastify+bullmq":
      return startBullmq(stack);
    case "relay":
      return startRelaySide(stack);
    case "relay+delivery":
      return startDeliveringRelay(stack);
  }
}

async function startStoreless(
  name: "bare" | "fastify",
  stack: AsyncDisposableStack,
): Promise<Side> {
  const server = await startChild(`servers/${name}.ts`);
  stack.defer(() => server.stop());
  return {
    name,
    port: server.port,
    pid: server.pid,
    mostPerSecond: 40_000,
    expect: async () => {},
    settle: null,
  };
}

/** Its jobs are left to workers, which are not measured. */
async function startBullmq(stack: AsyncDisposableStack): Promise<Side> {
  const redis = await startRedis({ appendonly: "everysec" });
  stack.defer(() => redis.stop());
  const server = await startChild("servers/bullmq.ts", [redis.url]);
  stack.defer(() => server.stop());
  let taken = 0;
  return {
    name: "fastify+bullmq",
    port: server.port,
    pid: server.pid,
    mostPerSecond: 25_000,
    expect: async () => {},
    async settle(acknowledged) {
      taken += (await server.ask("take")) as number;
      if (taken !== acknowledged)
        throw new Error(
          `fastify+bullmq acknowledged ${acknowledged} events and Redis holds ${taken}`,
        );
    },
  };
}

/**
 * The destination cannot be reached, so that every delivery is stored and owed, and nothing but
 * receiving goes on.
 */
async function startRelaySide(stack: AsyncDisposableStack): Promise<Side> {
  const relay = await startRelay({
    destination: `http://127.0.0.1:${await freePort()}/events`,
    concurrency,
  });
  stack.defer(() => relay.stop());
  return {
    ...relaySide("relay", relay),
    settle: (acknowledged) => holdsPlanned(relay, acknowledged),
  };
}

/**
 * The destination takes everything at once: receiving, delivering and the destination itself share
 * the machine.
 */
async function startDeliveringRelay(stack: AsyncDisposableStack): Promise<Side> {
  const sink = await startChild("servers/sink.ts");
  stack.defer(() => sink.stop());
  const relay = await startRelay({
    destination: `http://127.0.0.1:${sink.port}/events`,
    concurrency,
  });
  stack.defer(() => relay.stop());
  return {
    ...relaySide("relay+delivery", relay),
    async settle(acknowledged) {
      await holdsPlanned(relay, acknowledged);
      const deadline = performance.now() + drainWithinMs;
      for (;;) {
        const { events } = (await sink.ask({ counts: null })) as Sunk;
        if (events === acknowledged) return;
        if (performance.now() > deadline)
          throw new Error(`of ${acknowledged} acknowledged events only ${events} were delivered`);
        await wait(20);
      }
    },
  };
}

function relaySide(name: SideName, relay: Relay): Omit<Side, "settle"> {
  return {
    name,
    port: relay.port,
    pid: relay.pid(),
    mostPerSecond: 25_000,
    expect: (set) => relay.register(wamidsOf(set)),
  };
}

async function holdsPlanned(relay: Relay, acknowledged: number): Promise<void> {
  const dispositions = await relay.dispositions();
  const stored = Object.values(dispositions).reduce((sum, count) => sum + count, 0);
  if (stored !== acknowledged)
    throw new Error(`the relay acknowledged ${acknowledged} events and its store holds ${stored}`);
  if (dispositions["routed"] !== acknowledged)
    throw new Error(`not every event was routed: ${JSON.stringify(dispositions)}`);
}
