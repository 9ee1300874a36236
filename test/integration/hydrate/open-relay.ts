import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { z } from "zod";
import { createRelay, type Relay } from "../../../src/app/relay.ts";
import { parseSettings } from "../../../src/config/load.ts";
import type { Downstream } from "../../../src/sandbox/downstream/downstream.ts";
import { type Sandbox, type SandboxOptions, startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import type { MessageRecord } from "../../../src/sandbox/world/records.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { createManualClock, type ManualClock, settled } from "../../harness/manual-clock.ts";
import { relayToken, routeTo, type SettingsParts, settingsOf } from "../../harness/relay-settings.ts";
import { type SeenUsage, usageOf } from "../../harness/sandbox-usage.ts";
import { longestWaitMs } from "../../harness/until.ts";

/** What `GET /v1/events/{id}` tells of a truncated event. */
export interface SeenHydration {
  readonly state: string;
  readonly reason: string | null;
  readonly polled: number;
  readonly found: readonly { readonly id: string; readonly seq: number; readonly wamid: string; readonly status: string }[];
  readonly foundCount: number;
  readonly unknown: number | null;
  readonly settledAt: string | null;
}
export interface SeenEvent {
  readonly id: string;
  readonly seq: number;
  readonly event: string;
  readonly origin: string;
  readonly status: string | null;
  readonly disposition: string;
  readonly routes: readonly { readonly route: string; readonly verdict: string; readonly reason?: string }[];
  readonly hydration: SeenHydration | null;
}

/** Relay and sandbox in this process, on one clock that stands still until told; all between them is real HTTP. */
export interface HydratingRelay {
  readonly clock: ManualClock;
  readonly sandbox: Sandbox;
  readonly downstream: Downstream;
  /** Service ids in the order in which the relay polled them. */
  readonly polled: readonly string[];
  /** Log lines of level info and above. */
  log(): Record<string, unknown>[];
  /** Sends one message through the sandbox's API, and registers it with the relay unless told not to. */
  send(options?: { to?: string; track?: boolean }): Promise<MessageRecord>;
  track(messages: readonly MessageRecord[], more?: { withId?: boolean }): Promise<void>;
  /** Moves a message at the service, which tells it by an event. */
  move(message: MessageRecord, status: string): Promise<void>;
  /** From now on every event arrives truncated, or as it is. */
  truncate(share: 0 | 1): void;
  /** Lets so much time pass, with every exchange ended before each step of it. */
  pass(ms: number, stepMs?: number): Promise<void>;
  /** Truncated events, oldest first, with all that is known of them. */
  truncated(): Promise<SeenEvent[]>;
  events(query?: string): Promise<SeenEvent[]>;
  status(message: MessageRecord): Promise<string | null>;
  get(path: string): Promise<{ status: number; body: unknown }>;
  post(path: string, body: unknown): Promise<{ status: number; body: unknown }>;
  metrics(): Promise<string>;
  /** What the sandbox has counted. */
  usage(): Promise<SeenUsage>;
  reload(parts: SettingsParts): Promise<unknown>;
}

const identified = z.object({ id: z.string() });

export const minute = 60_000;
export const hour = 60 * minute;

export async function openRelay(
  options: { settings?: SettingsParts; account?: object; sandbox?: SandboxOptions } = {},
): Promise<HydratingRelay> {
  const folder = mkdtempSync(join(tmpdir(), "hydrate-"));
  const storePath = join(folder, "relay.db");
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
  const lines: string[] = [];

  const settingsFor = (parts: SettingsParts = {}) =>
    parseSettings(
      JSON.stringify(
        settingsOf(
          { port: 0, storePath },
          {
            accounts: { main: { baseUrl: sandbox.url, apiKey: sandbox.key, ...options.account } },
            sources: { main: { account: "main", signature: { service: "acme", secrets: [sandbox.secret] } } },
            routes: [routeTo(`${downstream.url}/all`, { name: "all" })],
            // What is learned here, hydration learns.
            reconcile: { schedule: "off" },
            ...options.settings,
            ...parts,
          },
        ),
      ),
      "relay.yaml",
      {},
    );

  const relay: Relay = await createRelay({
    settings: settingsFor(),
    clock,
    random: () => 0.5,
    log: { write: (line) => void lines.push(line), end: async () => {} },
  });
  const url = `http://127.0.0.1:${(await relay.listen()).port}`;
  sandbox.addWebhook({ url: `${url}/webhooks/main` });
  onTestFinished(async () => {
    await relay.close();
    await sandbox.close();
    exchanges.end();
    rmSync(folder, { recursive: true, force: true });
    expect(failed).toEqual([]);
  });

  async function ask(method: string, path: string, body?: string, type = "application/json"): Promise<{ status: number; body: unknown }> {
    const headers = { authorization: `Bearer ${relayToken}`, ...(body === undefined ? {} : { "content-type": type }) };
    const answer = await fetch(`${url}${path}`, { method, headers, ...(body === undefined ? {} : { body }) });
    const text = await answer.text();
    const isJson = answer.headers.get("content-type")?.startsWith("application/json") === true;
    return { status: answer.status, body: isJson ? JSON.parse(text) : text };
  }

  async function quiet(): Promise<void> {
    const deadline = performance.now() + longestWaitMs;
    await settled(8);
    while (exchanges.underWay() > 0) {
      if (performance.now() > deadline) throw new Error("an exchange hangs");
      await settled(8);
    }
  }

  let phones = 0;
  const self: HydratingRelay = {
    clock,
    sandbox,
    downstream,
    polled,
    log: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>),
    async send({ to, track = true } = {}) {
      phones += 1;
      const phone = to ?? `+54911${String(phones).padStart(4, "0")}0002`;
      sandbox.customerWrites(phone, "Hola");
      const { status, body } = await sandbox.call("POST", "/messages", { to: phone, text: "Hola" });
      expect(status).toBe(201);
      const sent = identified.parse(body);
      const message = sandbox.messages().find(({ id }) => id === sent.id) as MessageRecord;
      if (track) await self.track([message]);
      return message;
    },
    async track(messages, { withId = true } = {}) {
      const ndjson = messages.map(({ id, wamid }) => `${JSON.stringify({ account: "main", wamid, ...(withId ? { id } : {}) })}\n`).join("");
      const { status } = await ask("POST", "/v1/messages/track", ndjson, "application/x-ndjson");
      expect(status).toBe(200);
    },
    async move({ id }, status) {
      expect((await sandbox.control("POST", `/messages/${id}/status`, { status })).status).toBe(200);
      await self.pass(1);
    },
    truncate: (share) => sandbox.setFaults({ events: { truncate: share } }),
    async pass(ms, stepMs = 100) {
      for (let left = ms; left > 0; left -= stepMs) {
        await quiet();
        await clock.advance(Math.min(stepMs, left));
      }
      await quiet();
    },
    async truncated() {
      const events = await self.events();
      return events.filter(({ hydration }) => hydration !== null);
    },
    async events(query = "") {
      const { body } = await ask("GET", `/v1/events?limit=1000${query}`);
      const seqs = (body as { data: { seq: number }[] }).data.map(({ seq }) => seq).toReversed();
      const events: SeenEvent[] = [];
      for (const seq of seqs) events.push((await ask("GET", `/v1/events/${seq}`)).body as SeenEvent);
      return events;
    },
    async status({ wamid }) {
      const { body } = await ask("GET", `/v1/events?limit=1000&wamid=${encodeURIComponent(wamid)}`);
      return (body as { data: { status: string | null }[] }).data[0]?.status ?? null;
    },
    get: (path) => ask("GET", path),
    post: (path, body) => ask("POST", path, JSON.stringify(body)),
    async metrics() {
      return String((await ask("GET", "/metrics")).body);
    },
    usage: () => usageOf(sandbox),
    reload: (parts) => relay.reload(settingsFor(parts)),
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
  const channels = [
    ["undici:request:create", begin],
    ["undici:request:trailers", over],
    ["undici:request:error", over],
  ] as const;
  for (const [name, handler] of channels) subscribe(name, handler);
  return {
    underWay: () => open.size,
    end() {
      for (const [name, handler] of channels) unsubscribe(name, handler);
    },
  };
}
