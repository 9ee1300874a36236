import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Engine, engines, openStorage } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { makeRelayHere, type RelayHere } from "../../harness/relay-here.ts";
import { routeTo, type SettingsParts } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { jsonOf, runOn } from "./run-cli.ts";

const messages = createMessages("paused");

describe.each(engines)(
  "a destination that answers 429 with Retry-After: 99999999, on %s",
  (engine: Engine) => {
    /** What is asked; on PostgreSQL another process sends. */
    let relay: RelayHere;
    let worker: RelayHere;
    let isBusy = true;
    let storage: Awaited<ReturnType<typeof openStorage>>;
    let downstream: Server;
    let arrived = 0;

    function settingsOf(to: Record<string, unknown> = {}): SettingsParts {
      const route = routeTo(`http://127.0.0.1:${(downstream.address() as AddressInfo).port}/`, {
        name: "crm",
        to: { retry: { schedule: ["0s", "100ms", "100ms", "100ms"] }, ...to },
      });
      return { ...storage.settings, tracking: { unknown: "forward" }, routes: [route] };
    }

    /** Sends one event until the destination has answered 429 to it and pauses. */
    async function pause(): Promise<{ readonly event: string; readonly delivery: string }> {
      isBusy = true;
      const event = messages.event();
      await postEvent(relay.webhookUrl, event);
      return until("it pauses", async () => {
        const { body } = await relay.ask(`/v1/explain/${event.id}`);
        const [delivery] = (
          body as { data: { events: { deliveries: { id: string; next: { kind: string } }[] }[] }[] }
        ).data.flatMap(({ events }) => events.flatMap(({ deliveries }) => deliveries));
        return delivery?.next.kind === "paused" ? { event: event.id, delivery: delivery.id } : null;
      });
    }

    async function pausedSeconds(of: RelayHere): Promise<number> {
      const text = String((await of.ask("/metrics")).body);
      return Number(/^relay_destination_paused_seconds\{route="crm"\} (\S+)$/m.exec(text)?.[1]);
    }

    beforeAll(async () => {
      downstream = createServer((request, response) => {
        arrived += 1;
        request.resume();
        if (isBusy) response.writeHead(429, { "retry-after": "99999999" });
        response.end();
      }).listen(0, "127.0.0.1");
      await once(downstream, "listening");
      storage = await openStorage(engine);
      relay = await makeRelayHere(
        engine === "postgres"
          ? { role: "receive", settings: settingsOf() }
          : { settings: settingsOf() },
      );
      worker =
        engine === "postgres"
          ? await makeRelayHere({ role: "work", settings: settingsOf() })
          : relay;
      for (const one of new Set([relay, worker])) await one.start();
    });
    afterAll(async () => {
      for (const one of new Set([relay, worker])) await one.dispose();
      await storage.close();
      downstream.close();
    });

    test("pauses for an hour, which metrics, explain, doctor and retry show; resume ends it and delivers what waits", async () => {
      const { event, delivery } = await pause();
      for (const one of new Set([relay, worker])) {
        const seconds = await pausedSeconds(one);
        expect(seconds).toBeGreaterThan(3000);
        expect(seconds).toBeLessThanOrEqual(3600);
      }
      expect((await runOn(relay, "explain", event)).out).toMatch(
        /next: the destination asked for a pause \(429\): attempts go on .*; end it with: wamid-relay resume crm/,
      );
      const told =
        /warn {2}destination-paused .*crm asked not to be called .*429 with Retry-After.* 1 delivery waits .*→ wamid-relay resume crm/;
      await until("doctor shows it", async () =>
        told.test((await runOn(relay, "doctor", "--offline")).out),
      );
      const retried = await runOn(relay, "retry", delivery);
      expect(retried.out).toMatch(
        /waiting; the destination is paused until \S+ \(429\), start it earlier with: wamid-relay resume crm/,
      );

      isBusy = false;
      const before = arrived;
      expect(jsonOf(await runOn(relay, "resume", "crm", "--json"))).toEqual({
        route: "crm",
        resumed: true,
      });
      await until("the delivery arrives", () => arrived === before + 1);
      await until(
        "metrics show no pause",
        async () => (await pausedSeconds(relay)) === 0 && (await pausedSeconds(worker)) === 0,
      );
      expect((await runOn(relay, "resume", "crm")).out).toContain(
        "crm: was neither stopped nor paused, and its breaker was not open",
      );
    });

    test("stays paused across a restart, but not with changed settings", async () => {
      await pause();
      const before = arrived;
      await worker.stop();
      await worker.start();
      expect(await pausedSeconds(worker)).toBeGreaterThan(3000);
      expect(arrived).toBe(before);

      isBusy = false;
      for (const one of new Set([relay, worker])) {
        one.writeSettings(settingsOf({ maxRetryAfter: "2m" }));
        await one.reload();
      }
      await until("the delivery arrives", () => arrived === before + 1);
      expect(await pausedSeconds(worker)).toBe(0);
    });

    test("pauses for no longer than maxRetryAfter", async () => {
      await pause();
      expect(await pausedSeconds(relay)).toBeGreaterThan(0);
      expect(await pausedSeconds(relay)).toBeLessThanOrEqual(120);
    });

    test("resume ends the pause while no relay runs", async () => {
      const before = arrived;
      isBusy = false;
      for (const one of new Set([relay, worker])) await one.stop();
      expect(jsonOf(await runOn(relay, "resume", "crm", "--json"))).toEqual({
        route: "crm",
        resumed: true,
      });
      for (const one of new Set([relay, worker])) await one.start();
      await until("the delivery arrives", () => arrived === before + 1);
    });
  },
);
