import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { createRelay } from "../../../src/app/relay.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { createRandom } from "../../../src/sandbox/ids.ts";
import { type Happening, type Sandbox, type SandboxOptions, startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";
import { relayToken, type SettingsParts, settingsOf } from "../../harness/relay-settings.ts";
import { type SeenUsage, usageOf } from "../../harness/sandbox-usage.ts";
import { longestWaitMs } from "../../harness/until.ts";
import { openSlowRoad } from "../service/sandbox/slow-road.ts";

/** Small against every deadline and wait there is. */
export const stepMs = 200;
/** Of the clock's time, each way between relay and service. */
export const longestWayMs = 600;

/**
 * Requests of this process on their way, whoever makes them: the relay to the service, the sandbox to the relay. Sends
 * are not among them: they wait in the relay until there is room, and time must pass for that.
 */
function watchRequests(sendsAt: string): { underWay(): number; end(): void } {
  type Message = { readonly request: { readonly origin: unknown; readonly path: string; readonly method: string } };
  const underWay = new Set<object>();
  const begin = (message: unknown): void => {
    const { request } = message as Message;
    if (request.method !== "POST" || `${request.origin}${request.path}` !== sendsAt) underWay.add(request);
  };
  const finish = (message: unknown): void => void underWay.delete((message as Message).request);
  const channels = { "undici:request:create": begin, "undici:request:trailers": finish, "undici:request:error": finish };
  for (const [name, hear] of Object.entries(channels)) subscribe(name, hear);
  return {
    underWay: () => underWay.size,
    end() {
      for (const [name, hear] of Object.entries(channels)) unsubscribe(name, hear);
    },
  };
}

/** A relay and the service on one clock that stands still until told; all between them is real HTTP, over a road that takes its time. */
export interface Competition {
  readonly sandbox: Sandbox;
  /** Calls that the service answered with an error. */
  readonly refused: readonly unknown[];
  now(): number;
  /** Lets so much time pass, and every request come to its end before each step of it. */
  pass(ms: number): Promise<void>;
  /** Sends to a phone nobody has written to yet; gives how long the answer took, by the clock. Fails unless it is 201. */
  send(): Promise<number>;
  /** The account's messages of a campaign to so many people that stay `pending` for ever, registered with the service's id. */
  registerOpen(count: number): Promise<void>;
  /** The sum of a counter's samples whose labels hold `labels`. */
  metric(name: string, labels?: string): Promise<number>;
  usage(): Promise<SeenUsage>;
}

export async function compete(
  plan: "escala" | "enterprise",
  share: number,
  parts: SettingsParts,
  faults: SandboxOptions["faults"] = {},
): Promise<Competition> {
  const folder = mkdtempSync(join(tmpdir(), "competing-"));
  const clock = createManualClock(Date.UTC(2026, 10, 10, 12));
  const refused: Happening[] = [];
  const faulty: unknown[] = [];
  const sandbox = await startSandbox({
    plan,
    seed: `competing ${plan}`,
    clock,
    faults,
    onHappening(happening) {
      if (happening.what === "refused") refused.push(happening);
      if (happening.what === "failed") faulty.push(happening.error);
    },
  });
  const random = createRandom(`road ${plan}`);
  const road = await openSlowRoad(sandbox.url, clock, () => random.below(longestWayMs));
  const settings = parseSettings(
    JSON.stringify(
      settingsOf(
        { port: 0, storePath: join(folder, "relay.db") },
        {
          accounts: { main: { baseUrl: road.url, apiKey: sandbox.key, plan, share } },
          sources: { main: { account: "main", signature: { service: "acme", secrets: [sandbox.secret] } } },
          // Some of what this asks for waits longer than a sender usually would.
          send: { maxWait: "5m" },
          log: { level: "error" },
          ...parts,
        },
      ),
    ),
    "relay.yaml",
    {},
  );
  const complaints: string[] = [];
  const relay = await createRelay({
    settings,
    clock,
    random: () => 0.5,
    log: { write: (line) => void complaints.push(line), end: async () => {} },
  });
  const url = `http://127.0.0.1:${(await relay.listen()).port}`;
  const watched = watchRequests(`${url}/v1/messages`);
  sandbox.addWebhook({ url: `${url}/webhooks/main` });
  const headers = { authorization: `Bearer ${relayToken}`, "content-type": "application/json" };
  const templateId = sandbox.templates()[0]?.id ?? "";
  let phones = 0;

  onTestFinished(async () => {
    const closing = relay.close();
    while (!(await Promise.race([closing.then(() => true), settled().then(() => false)]))) await clock.advance(stepMs);
    await sandbox.close();
    watched.end();
    rmSync(folder, { recursive: true, force: true });
    expect([faulty, complaints]).toEqual([[], []]);
  });

  /** Until nothing moves unless time passes, and nothing follows from what came last. */
  async function quiet(): Promise<void> {
    const deadline = performance.now() + longestWaitMs;
    let still = 0;
    while (still < 2) {
      await settled();
      still = watched.underWay() <= road.held() ? still + 1 : 0;
      if (performance.now() > deadline) throw new Error("a request hangs");
    }
  }

  const competition: Competition = {
    sandbox,
    refused,
    now: clock.now,
    async pass(ms) {
      for (let left = ms; left > 0; left -= stepMs) {
        await quiet();
        await clock.advance(Math.min(stepMs, left));
      }
      await quiet();
    },
    async send() {
      phones += 1;
      const askedAt = clock.now();
      const to = `+54911${String(phones).padStart(4, "0")}1234`;
      const answer = await fetch(`${url}/v1/messages`, {
        method: "POST",
        headers,
        body: JSON.stringify({ to, template: { id: templateId } }),
      });
      const body = await answer.json();
      expect([answer.status, body]).toEqual([201, expect.anything()]);
      return clock.now() - askedAt;
    },
    async registerOpen(count) {
      const numbers = Array.from({ length: count }, (_, index) => `+54922${String(index).padStart(5, "0")}0002`);
      expect((await sandbox.control("POST", "/campaigns", { name: "open", phones: numbers, perSecond: 10_000 })).status).toBe(201);
      await competition.pass(2_000);
      const open = sandbox.messages().filter(({ origin }) => origin === "campaign");
      expect(open).toHaveLength(count);
      const sentAt = new Date(clock.now()).toISOString();
      const body = open.map(({ id, wamid }) => ({ account: "main", id, wamid, sentAt }));
      const answer = await fetch(`${url}/v1/messages/track`, { method: "POST", headers, body: JSON.stringify(body) });
      expect([answer.status, await answer.json()]).toEqual([200, { created: count, known: 0 }]);
    },
    async metric(name, labels = "") {
      const text = await (await fetch(`${url}/metrics`)).text();
      const samples = text.split("\n").filter((line) => line.startsWith(name) && line.includes(labels));
      return samples.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
    },
    usage: () => usageOf(sandbox),
  };
  return competition;
}
