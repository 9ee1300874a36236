import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { expect, onTestFinished } from "vitest";
import { z } from "zod";
import type { RelayEventDetail } from "../../../src/model/answers/events.ts";
import { type SandboxOptions, startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import type { MessageRecord } from "../../../src/sandbox/world.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";
import { makeRelayHere } from "../../harness/relay-here.ts";
import { routeTo, type SettingsParts } from "../../harness/relay-settings.ts";
import { longestWaitMs } from "../../harness/until.ts";

const identified = z.object({ id: z.string() });

export const minute = 60_000;
export const hour = 60 * minute;

/**
 * Relay and sandbox in this process, on one clock that stands still until told; all between them is
 * real HTTP.
 */
export async function openRelay(
  options: { settings?: SettingsParts; account?: object; sandbox?: SandboxOptions } = {},
) {
  const clock = createManualClock(Date.UTC(2026, 10, 10, 12));
  const failed: unknown[] = [];
  const sandbox = await startSandbox({
    plan: "escala",
    seed: "hydrate",
    ...options.sandbox,
    clock,
    onHappening(happening) {
      if (happening.what === "failed") failed.push(happening.error);
    },
  });
  const downstream = await openDownstream();
  const polled: string[] = [];
  const exchanges = watchExchanges((path) => {
    const id = /\/api\/v1\/messages\/([^/?]+)$/.exec(path)?.[1];
    if (id !== undefined) polled.push(id);
  });
  const settings = {
    accounts: { main: { baseUrl: sandbox.url, apiKey: sandbox.key, ...options.account } },
    sources: {
      main: { account: "main", signature: { service: "acme", secrets: [sandbox.secret] } },
    },
    routes: [routeTo(`${downstream.url}/all`, { name: "all" })],
    // What is learned here, hydration learns.
    reconcile: { schedule: "off" },
    ...options.settings,
  };
  const relay = await makeRelayHere({ settings, clock, random: () => 0.5 });
  onTestFinished(async () => {
    await relay.stop();
    await sandbox.close();
    exchanges.end();
    expect(failed).toEqual([]);
  });
  await relay.start();
  sandbox.addWebhook({ url: relay.webhookUrl });

  async function quiet(): Promise<void> {
    const deadline = performance.now() + longestWaitMs;
    await settled(8);
    while (exchanges.underWay() > 0) {
      if (performance.now() > deadline) throw new Error("an exchange hangs");
      await settled(8);
    }
  }

  let phones = 0;
  const self = {
    sandbox,
    downstream,
    /** Service ids in the order in which the relay polled them. */
    polled: polled as readonly string[],
    ask: relay.ask,
    /** Sends one message through the sandbox's API, and registers it with the relay. */
    async send({ to }: { to?: string } = {}): Promise<MessageRecord> {
      phones += 1;
      const phone = to ?? `+54911${String(phones).padStart(4, "0")}0002`;
      sandbox.customerWrites(phone, "Hola");
      const { body } = await sandbox.call("POST", "/messages", { to: phone, text: "Hola" });
      const { id } = identified.parse(body);
      const message = sandbox.messages().find((one) => one.id === id) as MessageRecord;
      const registration = { account: "main", wamid: message.wamid, id };
      expect(
        await relay.ask("/v1/messages/track", { method: "POST", body: registration }),
      ).toMatchObject({ status: 200 });
      return message;
    },
    /** Moves a message at the service, which tells it by an event. */
    async move({ id }: MessageRecord, status: string): Promise<void> {
      expect((await sandbox.control("POST", `/messages/${id}/status`, { status })).status).toBe(
        200,
      );
      await self.pass(1);
    },
    /** From now on every event arrives truncated, or as it is. */
    truncate: (share: 0 | 1) => sandbox.setFaults({ events: { truncate: share } }),
    /** Lets so much time pass, with every exchange ended before each step of it. */
    async pass(ms: number, stepMs = 100): Promise<void> {
      for (let left = ms; left > 0; left -= stepMs) {
        await quiet();
        await clock.advance(Math.min(stepMs, left));
      }
      await quiet();
    },
    /** Truncated events, oldest first, with all that is known of them. */
    async truncated(): Promise<RelayEventDetail[]> {
      const { body } = await relay.ask("/v1/events?limit=1000");
      const events: RelayEventDetail[] = [];
      for (const { seq } of (body as { data: { seq: number }[] }).data.toReversed())
        events.push((await relay.ask(`/v1/events/${seq}`)).body as RelayEventDetail);
      return events.filter(({ hydration }) => hydration !== null);
    },
    async status({ wamid }: MessageRecord): Promise<string | null> {
      const { body } = await relay.ask(`/v1/events?limit=1000&wamid=${encodeURIComponent(wamid)}`);
      return (body as { data: { status: string | null }[] }).data[0]?.status ?? null;
    },
    metrics: async () => String((await relay.ask("/metrics")).body),
    reload(parts: SettingsParts) {
      relay.writeSettings({ ...settings, ...parts });
      return relay.reload();
    },
    async restart(parts: SettingsParts): Promise<void> {
      relay.writeSettings({ ...settings, ...parts });
      await relay.stop();
      await relay.start();
    },
  };
  return self;
}

/** HTTP exchanges of this process that are under way, whoever makes them, told by undici itself. */
function watchExchanges(onPath: (path: string) => void): { underWay(): number; end(): void } {
  const open = new Set<object>();
  const begin = (message: unknown) => {
    const { request } = message as { request: { path: string } };
    open.add(request);
    onPath(request.path);
  };
  const over = (message: unknown) => void open.delete((message as { request: object }).request);
  const channels = Object.entries({ create: begin, trailers: over, error: over });
  for (const [name, handler] of channels) subscribe(`undici:request:${name}`, handler);
  return {
    underWay: () => open.size,
    end() {
      for (const [name, handler] of channels) unsubscribe(`undici:request:${name}`, handler);
    },
  };
}
