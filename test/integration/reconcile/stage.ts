import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { createRelay, type Relay } from "../../../src/app/relay.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { type Sandbox, startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { createJumpingClock, type JumpingClock } from "../../harness/jumping-clock.ts";
import { relayToken, type SettingsParts, settingsOf } from "../../harness/relay-settings.ts";
import { usageOf } from "../../harness/sandbox-usage.ts";
import { freePort } from "../../setup/free-port.ts";

export interface SentMessage {
  readonly id: string;
  readonly wamid: string;
}

export interface AccountDone {
  readonly polled: number;
  readonly changed: number;
  readonly unchanged: number;
  readonly missing: number;
  readonly failed: number;
  readonly postponed: number;
  readonly unpollable: number;
  readonly stopped: { readonly reason: string; readonly until: string | null } | null;
  readonly lastsUntil: string | null;
}

export interface Stage {
  readonly sandbox: Sandbox;
  readonly clock: JumpingClock;
  /** The relay's. */
  readonly url: string;
  readonly storePath: string;
  readonly lines: Record<string, unknown>[];
  relay: Relay;
  /** As SIGHUP, with these settings of the account. */
  reload(account: SettingsParts): Promise<unknown>;
  /** Ends the relay and starts another on the same file. */
  restart(): Promise<void>;
  /** Sends so many messages past the relay, and registers them with it. */
  send(count: number, digits?: string): Promise<SentMessage[]>;
  ask(method: "GET" | "POST", path: string, body?: unknown): Promise<{ status: number; body: unknown }>;
  /** `POST /v1/reconcile` until there is no more; gives the last step's account with the counts summed. */
  reconcile(): Promise<AccountDone>;
  apiCalls(): Promise<number>;
  /** Jumps by `stepMs` again and again, but not past the deadline of a call in flight; ends when the result is called. */
  tick(stepMs: number): () => void;
  /** Statuses of messages at the relay, by wamid. */
  statuses(): Promise<Map<string, string | null>>;
}

export interface StageOptions {
  readonly settings?: SettingsParts;
  readonly account?: SettingsParts;
  /** False: the service has no webhook URL, so that all must be learned by asking. */
  readonly webhooks?: boolean;
  readonly speed?: number;
  /** Not given: the middle of a month. */
  readonly start?: number;
  readonly plan?: "escala" | "enterprise";
  /** The service has no caps and no quotas. */
  readonly isUnlimited?: boolean;
}

/** A sandbox and a relay in this process that share a clock; the relay asks only when told to. */
export async function openStage({
  settings = {},
  account = {},
  webhooks = false,
  speed,
  start = Date.UTC(2026, 10, 10, 12),
  plan = "enterprise",
  isUnlimited = false,
}: StageOptions = {}): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), "reconcile-"));
  const port = await freePort();
  const clock = createJumpingClock({ ...(speed === undefined ? {} : { speed }), start });
  const sandbox = await startSandbox({
    clock,
    plan,
    isUnlimited,
    seed: "reconcile",
    ...(webhooks ? { webhooks: [{ url: `http://127.0.0.1:${port}/webhooks/main` }] } : {}),
  });
  const lines: Record<string, unknown>[] = [];
  function settingsWith(more: SettingsParts) {
    const parts = {
      accounts: { main: { baseUrl: sandbox.url, apiKey: sandbox.key, plan, share: 1, ...account, ...more } },
      sources: { main: { account: "main", signature: { service: "acme", secrets: [sandbox.secret] } } },
      reconcile: { schedule: "off" },
      ...settings,
    };
    return parseSettings(JSON.stringify(settingsOf({ port, storePath: join(folder, "relay.db") }, parts)), "relay.yaml", {});
  }
  const open = async (): Promise<Relay> => {
    const log = { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>), end: async () => {} };
    const relay = await createRelay({ settings: settingsWith({}), log, clock });
    await relay.listen();
    return relay;
  };
  const stage: Stage = {
    sandbox,
    clock,
    storePath: join(folder, "relay.db"),
    url: `http://127.0.0.1:${port}`,
    lines,
    relay: await open(),
    reload: (more) => stage.relay.reload(settingsWith(more)),
    async restart() {
      await stage.relay.close();
      stage.relay = await open();
    },
    async send(count, digits = "1234") {
      const [template] = sandbox.templates();
      const sent: SentMessage[] = [];
      for (let n = 0; n < count; n++) {
        const to = `+54911${String(n).padStart(6, "0")}${digits}`;
        const { body } = await sandbox.call("POST", "/messages", { to, template: { id: template?.id, variables: {} } });
        sent.push(body as SentMessage);
      }
      await stage.ask(
        "POST",
        "/v1/messages/track",
        sent.map(({ id, wamid }) => ({ account: "main", id, wamid })),
      );
      return sent;
    },
    async ask(method, path, body) {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
        method,
        headers: { authorization: `Bearer ${relayToken}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: answer.status, body: await answer.json() };
    },
    async reconcile() {
      const sums = { polled: 0, changed: 0, unchanged: 0, missing: 0, failed: 0 };
      let dueBy: string | null = null;
      for (;;) {
        const { status, body } = await stage.ask("POST", "/v1/reconcile", { dueBy });
        if (status !== 200) throw new Error(`reconcile: ${JSON.stringify(body)}`);
        const step = body as { dueBy: string; more: boolean; accounts: AccountDone[] };
        const account = step.accounts[0] as AccountDone;
        for (const key of Object.keys(sums) as (keyof typeof sums)[]) sums[key] += account[key];
        if (!step.more) return { ...account, ...sums };
        dueBy = step.dueBy;
      }
    },
    async apiCalls() {
      return (await usageOf(sandbox)).apiCalls.used;
    },
    tick(stepMs) {
      const calls = watchCalls(sandbox.url);
      const timer = setInterval(() => {
        if (calls.inFlight() === 0) clock.jump(stepMs);
      }, 10);
      const end = () => {
        clearInterval(timer);
        calls.end();
      };
      onTestFinished(end);
      return end;
    },
    async statuses() {
      const all = new Map<string, string | null>();
      let before: number | null = null;
      for (;;) {
        const { body } = await stage.ask("GET", `/v1/messages?limit=1000${before === null ? "" : `&before=${before}`}`);
        const page = body as { data: { wamid: string; status: string | null }[]; next: number | null };
        for (const { wamid, status } of page.data) all.set(wamid, status);
        if (page.next === null) return all;
        before = page.next;
      }
    },
  };
  onTestFinished(async () => {
    await stage.relay.close();
    await sandbox.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return stage;
}

/** Requests of this process to a server, from now on. */
function watchCalls(url: string): { inFlight(): number; end(): void } {
  type Message = { readonly request: { readonly origin: unknown } };
  const inFlight = new Set<object>();
  const begin = (message: unknown): void => {
    const { request } = message as Message;
    if (String(request.origin) === url) inFlight.add(request);
  };
  const finish = (message: unknown): void => void inFlight.delete((message as Message).request);
  const channels = { "undici:request:create": begin, "undici:request:trailers": finish, "undici:request:error": finish };
  for (const [name, hear] of Object.entries(channels)) subscribe(name, hear);
  return {
    inFlight: () => inFlight.size,
    end() {
      for (const [name, hear] of Object.entries(channels)) unsubscribe(name, hear);
    },
  };
}
