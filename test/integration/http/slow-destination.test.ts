import { describe, expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { startHttp, startRaw } from "../url-destination/downstream.ts";
import { freshEvent, metric } from "./alive.ts";
import { ask, connect, type RawConnection, requestBytes } from "./raw-client.ts";

/** What a bad destination does to every delivery; gives its URL. */
const bad: readonly (readonly [name: string, open: () => Promise<string>, outcome: RegExp])[] = [
  ["hangs", async () => (await startHttp(() => {})).url, /timeout/],
  ["resets", async () => (await startRaw((socket) => socket.on("data", () => socket.resetAndDestroy()))).url, /reset/],
  [
    "asks to wait an hour",
    async () => (await startHttp((_request, response) => response.writeHead(429, { "retry-after": "3600" }).end())).url,
    /429/,
  ],
  ["has no address", async () => "http://downstream.invalid/hook", /dns/],
];

/** Held up by the other route, these would take nine times its timeout: 16 are in flight. */
const events = 150;

/** Posts events on one kept-alive connection; resolves when all of them are answered and delivered to the good destination. */
async function pour(connection: RawConnection, bodies: readonly string[], arrived: () => number): Promise<void> {
  const before = arrived();
  // At most so many may be ahead of their answers.
  for (let at = 0; at < bodies.length; at += 32) {
    const some = bodies.slice(at, at + 32);
    void connection.write(Buffer.concat(some.map((body) => requestBytes({ body }))));
    for (const _ of some) expect((await connection.answer()).json).toEqual({ status: "accepted" });
  }
  await until("all are delivered to the good destination", () => arrived() === before + bodies.length);
}

const bodies = () => Array.from({ length: events }, (_, n) => JSON.stringify(freshEvent({ wamid: `wamid.${n}`, status: "sent" })));

describe("a slow destination does not delay the others", () => {
  test.each(bad)("one that %s", async (_name, open, outcome) => {
    const hangs = outcome.test("timeout");
    const good = await openDownstream({ keepBodies: false });
    const url = await open();
    const relay = await startRelayHere({
      settings: {
        tracking: { unknown: "forward" },
        routes: [
          // With breakers that never open, and attempts as fast as may be: the worst for their neighbor. A route that hangs
          // has no attempt back before the test fails, except that one shows the timeout.
          ...Object.entries({ bad: "5m", ...(hangs ? { timed: "500ms" } : {}) }).map(([name, timeout]) =>
            routeTo(url, {
              name,
              to: {
                timeout,
                concurrency: 16,
                order: "none",
                retry: { schedule: ["0s", "50ms", "50ms", "1h"], jitter: 0 },
                breaker: { failures: 1_000_000, pause: "200ms", longest: "200ms" },
              },
            }),
          ),
          routeTo(good.url, { name: "good" }),
        ],
        log: { level: "error" },
        // What hangs is not waited for in the end.
        server: { shutdownTimeout: "100ms" },
      },
    });
    const connection = await connect(relay.port);
    const arrived = () => good.counts().taken;
    await pour(connection, bodies(), arrived);
    await until(
      "the bad one is at its worst",
      async () =>
        (await metric(relay, "relay_delivery_attempts_total", { route: "bad" })) +
          (await metric(relay, "relay_deliveries_in_flight", { route: "bad" })) >
        0,
    );
    await pour(connection, bodies(), arrived);

    expect(good.counts()).toMatchObject({ arrivals: 2 * events, taken: 2 * events, failed: 0, duplicates: 0 });
    expect(await metric(relay, "relay_delivery_attempts_total", { route: "bad", outcome: "delivered" })).toBe(0);
    await until(
      "each answer of the good one is counted",
      async () => (await metric(relay, "relay_delivery_attempts_total", { route: "good", outcome: "delivered" })) === 2 * events,
    );

    // What the bad one owes is still there, and each attempt has its reason.
    const shown = hangs ? "timed" : "bad";
    const attempts = await until("an attempt at the bad one is written down", async () => {
      const { data } = (await relay.ask(`/v1/deliveries?route=${shown}&limit=1000`)).body as {
        data: { event: number; attempts: number }[];
      };
      const tried = data.find(({ attempts }) => attempts > 0);
      if (tried === undefined) return null;
      const event = (await relay.ask(`/v1/events/${tried.event}`)).body as {
        deliveries: { route: string; attemptHistory: { status: number | null; error: string | null }[] }[];
      };
      return event.deliveries.find(({ route }) => route === shown)?.attemptHistory ?? null;
    });
    expect(`${attempts[0]?.status} ${attempts[0]?.error}`).toMatch(outcome);
    connection.socket.destroy();
    // Receiving is as it was.
    expect(await ask(relay.port, { body: JSON.stringify(freshEvent()) })).toMatchObject({ status: 200 });
  });
});
