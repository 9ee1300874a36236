import { setTimeout as wait } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import type { InstanceView } from "../model/answers/relay.ts";
import type { readinessSchema } from "../model/endpoints/operate.ts";
import type { View } from "../model/view.ts";
import type { Handlers } from "./endpoint.ts";

/** `/healthz` and `/readyz`: they need no token and hold nothing private. */
export function createProbeHandlers(
  { instance, version }: Pick<InstanceView, "instance" | "version">,
  health: () => View<typeof readinessSchema>,
) {
  return {
    getHealth: () => ({ status: "ok", instance, version }),
    getReadiness(_input, { reply }) {
      const report = health();
      reply.code(report.ready ? 200 : 503);
      return report;
    },
  } satisfies Partial<Handlers>;
}

export function addMetricsRoute(
  app: FastifyInstance,
  metrics: { readonly contentType: string; text(): Promise<string> },
): void {
  const scrape = createScrape(metrics.text);
  app.get("/metrics", async (_request, reply) =>
    reply.header("content-type", metrics.contentType).send(await scrape()),
  );
}

/** Most of the process's time that renderings take, and the longest rest between two, in ms. */
const share = 0.1;
const longestRestMs = 1_000;

interface Time {
  /** In ms. */
  elapsed(): number;
  rest(ms: number): Promise<unknown>;
}

const systemTime: Time = {
  elapsed: () => performance.now(),
  rest: (ms) => wait(ms, undefined, { ref: false }),
};

/**
 * Renders for all callers that wait, once. The next rendering begins after a rest in proportion, so
 * that callers without a token cannot keep the process busy. Nobody gets a text from before the
 * call, and all answers share one buffer.
 */
export function createScrape(
  render: () => Promise<string>,
  { elapsed, rest }: Time = systemTime,
): () => Promise<Buffer> {
  let waiting: Promise<Buffer> | null = null;
  let rested: Promise<unknown> = Promise.resolve();

  function next(): Promise<Buffer> {
    let startedAt = 0;
    const text = rested.then(async () => {
      // Who calls from now on waits for the next rendering.
      waiting = null;
      startedAt = elapsed();
      return Buffer.from(await render());
    });
    const rests = () => rest(Math.min(longestRestMs, (elapsed() - startedAt) * (1 / share - 1)));
    rested = text.then(rests, rests);
    return text;
  }

  return () => {
    waiting ??= next();
    return waiting;
  };
}
