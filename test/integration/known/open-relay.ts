import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { createRelay, type Relay } from "../../../src/app/relay.ts";
import { parseSettings } from "../../../src/config/load.ts";
import type { Wamid } from "../../../src/model/ids.ts";
import type { MessageStatus } from "../../../src/model/statuses.ts";
import type { Arrival } from "../../../src/sandbox/downstream/arrivals.ts";
import type { Downstream } from "../../../src/sandbox/downstream/downstream.ts";
import { createEventMaker, type SandboxEvent } from "../../../src/sandbox/events/event-maker.ts";
import { createPhones, createRandom, createWamids } from "../../../src/sandbox/ids.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { createManualClock, type ManualClock } from "../../harness/manual-clock.ts";
import { postEvent } from "../../harness/post-event.ts";
import { relayToken, routeTo, type SettingsParts, settingsOf } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

export interface RegistrationBody {
  readonly account: string;
  readonly wamid: string;
  readonly reference?: string;
}

/** What `GET /v1/events/{id}` tells, as far as tests look. */
export interface SeenEvent {
  readonly seq: number;
  readonly disposition: string;
  readonly parkedUntil: string | null;
  readonly duplicates: number;
  readonly routes: readonly { readonly route: string; readonly verdict: string; readonly reason?: string }[];
}

/** A relay in this process on a clock that stands still until told; webhooks, control API and downstream are real HTTP. */
export interface KnownRelay {
  readonly clock: ManualClock;
  readonly downstream: Downstream;
  readonly storePath: string;
  wamid(): Wamid;
  event(wamid: Wamid, status: MessageStatus): SandboxEvent;
  /** Gives the answer's word; fails unless it is 200. */
  post(event: SandboxEvent): Promise<"accepted" | "duplicate">;
  /** One JSON body; fails unless it is 200. */
  track(...registrations: RegistrationBody[]): Promise<{ created: number; known: number }>;
  /** NDJSON; fails unless every line is `created` or `known`. */
  trackLines(registrations: readonly RegistrationBody[]): Promise<void>;
  seen(event: SandboxEvent): Promise<SeenEvent>;
  get(path: string): Promise<{ status: number; body: unknown }>;
  /** What came at a path about a message: event ids in the order of arrival, repeated ones too. */
  arrivals(path: string, wamid: Wamid): Arrival[];
  /** Closes it and opens another on the same file once `downMs` of the clock have passed. */
  restart(downMs?: number): Promise<void>;
}

/** Where each route sends. `all` takes every event, `reads` those of one status; the other two want tracked messages. */
export const paths = { all: "/all", reads: "/reads", events: "/events", transitions: "/transitions" } as const;

export function routesTo(url: string, names: readonly (keyof typeof paths)[]): unknown[] {
  const matches = {
    all: {},
    reads: { match: { statuses: ["read"] } },
    events: { match: { tracked: true } },
    transitions: { match: { tracked: true }, emit: "transitions", payload: "enriched" },
  };
  return names.map((name) => routeTo(`${url}${paths[name]}`, { name, ...matches[name] }));
}

export async function openRelay({
  settings: parts = {},
  routes = ["all", "events", "transitions"],
  seed = "known",
}: {
  settings?: SettingsParts;
  routes?: readonly (keyof typeof paths)[];
  seed?: string;
} = {}): Promise<KnownRelay> {
  const folder = mkdtempSync(join(tmpdir(), "known-"));
  const storePath = join(folder, "relay.db");
  const downstream = await openDownstream();
  const clock = createManualClock(Date.UTC(2026, 10, 10, 12));
  const settings = parseSettings(
    JSON.stringify(
      settingsOf(
        { port: 0, storePath },
        { tracking: { unknown: "park", parkFor: "60s" }, routes: routesTo(downstream.url, routes), log: { level: "error" }, ...parts },
      ),
    ),
    "relay.yaml",
    {},
  );
  const complaints: string[] = [];
  let relay: Relay;
  let url = "";
  async function start(): Promise<void> {
    relay = await createRelay({ settings, clock, log: { write: (line) => void complaints.push(line), end: async () => {} } });
    url = `http://127.0.0.1:${(await relay.listen()).port}`;
  }
  await start();
  onTestFinished(async () => {
    await relay.close();
    rmSync(folder, { recursive: true, force: true });
    expect(complaints).toEqual([]);
  });

  const random = createRandom(seed);
  const make = createEventMaker({ clock: clock.now, random: random.fork("ids") });
  const phone = createPhones(random.fork("phones"));
  const wamids = createWamids(random.fork("wamids"));
  const authorization = `Bearer ${relayToken}`;
  const trackPath = () => `${url}/v1/messages/track`;

  async function get(path: string): Promise<{ status: number; body: unknown }> {
    const answer = await fetch(`${url}${path}`, { headers: { authorization } });
    return { status: answer.status, body: await answer.json() };
  }

  return {
    clock,
    downstream,
    storePath,
    wamid: () => wamids(phone()),
    event: (wamid, status) => make.messageStatus(wamid, status, status === "failed" ? 131026 : undefined),
    async post(event) {
      const { status, word } = await postEvent(`${url}/webhooks/main`, event);
      expect(status).toBe(200);
      return word as "accepted" | "duplicate";
    },
    async track(...registrations) {
      const answer = await fetch(trackPath(), {
        method: "POST",
        headers: { authorization, "content-type": "application/json" },
        body: JSON.stringify(registrations.length === 1 ? registrations[0] : registrations),
      });
      const body = await answer.json();
      expect([answer.status, body]).toEqual([200, expect.anything()]);
      return body as { created: number; known: number };
    },
    async trackLines(registrations) {
      const answer = await fetch(trackPath(), {
        method: "POST",
        headers: { authorization, "content-type": "application/x-ndjson" },
        body: registrations.map((registration) => `${JSON.stringify(registration)}\n`).join(""),
      });
      const lines = (await answer.text()).trimEnd().split("\n");
      expect(JSON.parse(lines.at(-1) as string)).toMatchObject({ lines: registrations.length, conflict: 0, invalid: 0 });
    },
    async seen(event) {
      const { status, body } = await get(`/v1/events/${event.id}`);
      expect(status).toBe(200);
      return body as SeenEvent;
    },
    get,
    arrivals: (path, wamid) => downstream.arrivals.filter((arrival) => arrival.path === path && arrival.wamid === wamid),
    async restart(downMs = 0) {
      await relay.close();
      await clock.advance(downMs);
      await start();
    },
  };
}

/** Waits until these events came at a path about a message, and fails when anything else did, or in another order, or again. */
export async function arrived(relay: KnownRelay, path: string, wamid: Wamid, events: readonly SandboxEvent[]): Promise<void> {
  await until(`${events.length} events of ${wamid} at ${path}`, () => relay.arrivals(path, wamid).length >= events.length);
  expect(relay.arrivals(path, wamid).map(({ eventId }) => eventId)).toEqual(events.map(({ id }) => id));
}
