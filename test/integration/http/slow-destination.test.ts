import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { startHttp } from "../url-destination/downstream.ts";
import { freshEvent, metric } from "./alive.ts";
import { ask, connect, requestBytes } from "./raw-client.ts";

/** Held up by the other route, these would take nine times its timeout: 16 are in flight. */
const events = 150;

// With breakers that never open, and attempts as fast as may be: the worst for their neighbor.
const worst = {
  concurrency: 16,
  order: "none",
  retry: { schedule: ["0s", "50ms", "50ms", "1h"], jitter: 0 },
  breaker: { failures: 1_000_000, pause: "200ms", longest: "200ms" },
};

const bad: readonly (readonly [
  name: string,
  open: () => Promise<string>,
  outcome: string | null,
])[] = [
  ["hangs", async () => (await startHttp(() => {})).url, null],
  [
    "fails at once",
    async () => (await startHttp((_request, response) => response.writeHead(503).end())).url,
    "503",
  ],
  ["has no address", async () => "http://downstream.invalid/hook", "dns"],
];

test.each(bad)("a destination that %s does not delay the others", async (_name, open, outcome) => {
  const good = await openDownstream({ keepBodies: false });
  const relay = await startRelayHere({
    settings: {
      tracking: { unknown: "forward" },
      // No attempt at one that hangs ends before the test fails.
      routes: [
        routeTo(await open(), { name: "bad", to: { ...worst, timeout: "5m" } }),
        routeTo(good.url, { name: "good" }),
      ],
      log: { level: "error" },
      // What hangs is not waited for in the end.
      server: { shutdownTimeout: "100ms" },
    },
  });
  const connection = await connect(relay.port);
  const attempts = (labels: Record<string, string>) =>
    metric(relay, "relay_delivery_attempts_total", labels);
  for (const round of [1, 2]) {
    // At most so many may be ahead of their answers.
    for (let left = events; left > 0; left -= 32) {
      const some = Array.from({ length: Math.min(left, 32) }, (_, n) =>
        requestBytes({ body: JSON.stringify(freshEvent({ wamid: `wamid.${n}`, status: "sent" })) }),
      );
      void connection.write(Buffer.concat(some));
      for (const _ of some)
        expect((await connection.answer()).json).toEqual({ status: "accepted" });
    }
    await until(
      "all are delivered to the good destination",
      () => good.counts().taken === round * events,
    );
    const inFlight = () => metric(relay, "relay_deliveries_in_flight", { route: "bad" });
    await until(
      "the bad one is at its worst",
      async () => (await attempts({ route: "bad" })) + (await inFlight()) > 0,
    );
  }
  expect(good.counts()).toMatchObject({
    arrivals: 2 * events,
    taken: 2 * events,
    failed: 0,
    duplicates: 0,
  });
  expect(await attempts({ route: "bad", outcome: "delivered" })).toBe(0);
  // What the bad one owes is still there, and each attempt has its reason.
  const { data } = (await relay.ask("/v1/deliveries?route=bad&limit=1000")).body as {
    data: { state: string; event: number }[];
  };
  expect(data.filter(({ state }) => state === "waiting")).toHaveLength(2 * events);
  if (outcome !== null) {
    await until("an attempt is written down", async () => {
      const tried = JSON.stringify((await relay.ask(`/v1/events/${data.at(-1)?.event}`)).body);
      return tried.includes(`"status":${outcome}`) || tried.includes(`"error":"${outcome}"`);
    });
  }
  connection.socket.destroy();
  // Receiving is as it was.
  expect(await ask(relay.port, { body: JSON.stringify(freshEvent()) })).toMatchObject({
    status: 200,
  });
});
