import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Downstream, startDownstream } from "../../../src/sandbox/downstream.ts";
import { type Engine, engines, openStorage } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { makeRelayHere, type RelayHere } from "../../harness/relay-here.ts";
import { routeTo, type SettingsParts, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { runOn } from "./run-cli.ts";

interface Next {
  readonly kind: string;
  readonly reason: string | null;
  readonly at: string | null;
}

interface Explained {
  readonly data: readonly {
    readonly events: readonly {
      readonly deliveries: readonly { readonly route: string; readonly next: Next }[];
    }[];
  }[];
}

const messages = createMessages("what is next");
const event = messages.event();

/** What is asked; on PostgreSQL it takes in and tells, and another relay sends. */
let relay: RelayHere;
let worker: RelayHere;
let downstream: Downstream;
let storage: Awaited<ReturnType<typeof openStorage>>;

/** Settings of all processes; `routes` are names of the downstream's paths. */
function settingsOf(routes: readonly string[]): SettingsParts {
  const signature = { service: "acme", secrets: [webhookSecret] };
  const to = { url: `${downstream.url}/exchange`, allowPrivate: true };
  return {
    ...storage.settings,
    sources: {
      main: { account: "main", signature },
      flows: { account: "main", kind: "automation-request", mode: "proxy", signature, to },
    },
    routes: routes.map((name) =>
      routeTo(`${downstream.url}/${name}`, {
        name,
        match: { events: ["message.*"] },
        to: {
          ...(name === "probed"
            ? {
                retry: { schedule: Array(50).fill("200ms"), jitter: 0 },
                breaker: { failures: 1, pause: "100ms", longest: "100ms" },
              }
            : {
                retry: { schedule: ["0s", "2s", "1h"], jitter: 0 },
                breaker: { failures: name === "pausing" ? 1 : 10, pause: "1h", longest: "1h" },
              }),
        },
      }),
    ),
  };
}

async function nextOf(name: string): Promise<Record<string, Next>> {
  const { body } = await relay.ask(`/v1/explain/${name}`);
  const stories = (body as Explained).data;
  return Object.fromEntries(
    stories.flatMap(({ events }) =>
      events.flatMap((one) => one.deliveries.map(({ route, next }) => [route, next])),
    ),
  );
}

describe.each(engines)("the next step, on %s", (engine: Engine) => {
  let postedAt = 0;

  beforeAll(async () => {
    downstream = await startDownstream();
    storage = await openStorage(engine);
    const settings = settingsOf(["pausing", "gone", "removed", "failing", "probed"]);
    relay = await makeRelayHere(
      engine === "postgres" ? { role: "receive", settings } : { settings },
    );
    worker = engine === "postgres" ? await makeRelayHere({ role: "work", settings }) : relay;
    for (const name of ["pausing", "removed", "failing", "probed"])
      downstream.fail({ status: 500 }, `/${name}`);
    downstream.fail({ status: 410 }, "/gone");
    downstream.fail("hang", "/exchange");
    await relay.start();
    if (worker !== relay) await worker.start();
    postedAt = Date.now();
    await postEvent(relay.webhookUrl, event);
  });
  afterAll(async () => {
    await Promise.all([relay.dispose(), worker.dispose()]);
    await downstream.close();
    await storage.close();
  });

  test("a paused destination, a stopped one, and the time of the next attempt", async () => {
    const next = await until("each was tried", async () => {
      // An attempt is next before the first one, too.
      const { body: failed } = await relay.ask("/v1/deliveries?route=failing&cause=500");
      const found = await nextOf(event.id);
      const is = (route: string, kind: string) => found[route]?.kind === kind;
      return (failed as { data: unknown[] }).data.length === 1 &&
        is("pausing", "breaker") &&
        is("gone", "stopped") &&
        is("failing", "attempt")
        ? found
        : null;
    });
    expect(next["gone"]?.reason).toContain("410");
    expect(Date.parse(next["failing"]?.at ?? "")).toBeGreaterThan(postedAt - 5_000);
    // The end of the pause, which is later than the time of the attempt.
    expect(Date.parse(next["pausing"]?.at ?? "")).toBeGreaterThan(Date.now() + 1_800_000);
    const { body: shown } = await relay.ask(`/v1/events/${event.id}`);
    const kinds = (shown as Explained["data"][number]["events"][number]).deliveries.map(
      ({ route, next: { kind } }) => [route, kind],
    );
    expect(Object.fromEntries(kinds)).toMatchObject({
      pausing: "breaker",
      gone: "stopped",
      failing: "attempt",
    });
    expect(String((await relay.ask("/metrics")).body)).toContain(
      'relay_breaker_state{route="pausing"} 2',
    );
    // The file does not hold the breaker: the command asks the relay that runs on it.
    const { code, out } = await runOn(relay, "explain", event.id);
    expect(code).toBe(0);
    expect(out).toContain(
      "next: the destination fails, and its circuit breaker is open: attempts go on ",
    );
    expect(out).toMatch(
      /next: nothing: the destination is stopped \(.*410.*\); start it with: wamid-relay resume gone/,
    );
    expect((await runOn(relay, "events", "show", event.id)).out).toMatch(
      /next: nothing: the destination is stopped/,
    );
    const { out: list } = await runOn(relay, "deliveries", "list", "--route", "failing");
    expect(list).toMatch(/ failing +waiting .* 500$/m);
  });

  test("a probe in flight", async () => {
    downstream.fail("hang", "/probed");
    await until("it hangs", async () =>
      (await runOn(relay, "explain", event.id)).out.includes(
        "next: the destination fails: one delivery tries first",
      ),
    );
  });

  test("a route that was removed from the settings", async () => {
    const settings = settingsOf(["pausing", "gone", "failing"]);
    for (const one of new Set([relay, worker])) {
      one.writeSettings(settings);
      await one.reload();
    }
    await until(
      "it is known",
      async () => (await nextOf(event.id))["removed"]?.kind === "no route",
    );
    const { out } = await runOn(relay, "explain", event.id);
    expect(out).toContain("next: nothing: its route is not in the settings");
  });

  test("an exchange in flight", async () => {
    const body = Buffer.from('{"step":1}');
    const answered = postEvent(relay.webhookUrl.replace("main", "flows"), body).catch(() => null);
    const seq = await until("it is stored", async () => {
      const { body: list } = await relay.ask("/v1/events?source=flows");
      return (list as { data: { seq: number }[] }).data[0]?.seq.toString() ?? null;
    });
    expect((await nextOf(seq))["proxy:flows"]).toMatchObject({ kind: "exchange" });
    expect((await runOn(relay, "explain", seq)).out).toContain("next: the exchange is in flight");
    downstream.recover();
    await answered;
    await until("it has ended", async () =>
      ["done", "dead"].includes((await nextOf(seq))["proxy:flows"]?.kind ?? ""),
    );
  });
});
