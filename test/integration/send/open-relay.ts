import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { z } from "zod";
import { createRelay, type Relay } from "../../../src/app/relay.ts";
import { parseSettings } from "../../../src/config/load.ts";
import type { Clock } from "../../../src/model/clock.ts";
import { systemClock } from "../../../src/model/system-clock.ts";
import { type Sandbox, type SandboxOptions, startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { relayToken, type SettingsParts, settingsOf } from "../../harness/relay-settings.ts";

/** Of a call to the service (src/service/client.ts). */
const callTimeoutMs = 10_000;

/** The machine's clock, but for the deadlines of calls to the service, which come only when told. */
function createDeadlineClock(): Clock & { expire(): void; deadlines(): number } {
  const deadlines = new Set<() => void>();
  return {
    now: systemClock.now,
    after(ms, run) {
      if (ms !== callTimeoutMs) return systemClock.after(ms, run);
      deadlines.add(run);
      return () => void deadlines.delete(run);
    },
    expire() {
      for (const run of [...deadlines]) {
        deadlines.delete(run);
        run();
      }
    },
    deadlines: () => deadlines.size,
  };
}

export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

const sent = z.object({ id: z.string(), wamid: z.string(), conversationId: z.string(), idempotencyKey: z.string() });
const started = z.object({ runId: z.string() });
const page = z.object({ data: z.array(z.looseObject({ wamid: z.string().optional() })), next: z.number().nullable() });

/** An answer that a message was sent; fails where it is another, as the two after it do. */
export const sentOf = ({ body }: Answered) => sent.parse(body);
/** That a run was started. */
export const startedOf = ({ body }: Answered) => started.parse(body);
/** A page of messages or runs. */
export const pageOf = ({ body }: Answered) => page.parse(body);

export interface SendingRelay {
  readonly sandbox: Sandbox;
  readonly lines: readonly string[];
  url(): string;
  send(body: object, key?: string | null, more?: { query?: string; signal?: AbortSignal }): Promise<Answered>;
  run(automation: string, body: object, query?: string): Promise<Answered>;
  get(path: string): Promise<Answered>;
  /** The deadlines of calls to the service under way come. */
  expire(): void;
  deadlines(): number;
  /** Closes the relay and starts another on the same file. */
  restart(): Promise<void>;
  readonly storePath: string;
}

/** A phone whose customer wrote, so that text may be sent. */
export const openPhone = "+5491155550100";
export const hello = { to: openPhone, text: "Tu pedido salió." };

/** A relay in this process, over HTTP, with the sandbox as its messaging service, which posts its events to it. */
export async function openRelay(
  options: { settings?: SettingsParts; account?: object; sandbox?: SandboxOptions } = {},
): Promise<SendingRelay> {
  const folder = mkdtempSync(join(tmpdir(), "sending-"));
  const storePath = join(folder, "relay.db");
  const sandbox = await startSandbox({ plan: "enterprise", seed: 1, ...options.sandbox });
  sandbox.customerWrites(openPhone, "Hola");
  const lines: string[] = [];
  const clock = createDeadlineClock();
  let relay: Relay;
  let url = "";

  async function start(): Promise<void> {
    const parts = {
      accounts: { main: { baseUrl: sandbox.url, apiKey: sandbox.key, plan: "enterprise", share: 1, ...options.account } },
      sources: { main: { account: "main", signature: { service: "acme", secrets: [sandbox.secret] } } },
      server: { host: "127.0.0.1", port: 0, shutdownTimeout: "2s" },
      ...options.settings,
    };
    const settings = parseSettings(JSON.stringify(settingsOf({ port: 0, storePath }, parts)), "relay.yaml", {});
    relay = await createRelay({ settings, clock, log: { write: (line) => void lines.push(line), end: async () => {} } });
    url = `http://127.0.0.1:${(await relay.listen()).port}`;
  }

  await start();
  onTestFinished(async () => {
    const closing = relay.close();
    clock.expire();
    await closing;
    await sandbox.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function ask(
    method: string,
    path: string,
    more: { body?: object; key?: string | null; signal?: AbortSignal } = {},
  ): Promise<Answered> {
    const { body, key, signal } = more;
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${relayToken}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(key === undefined || key === null ? {} : { "idempotency-key": key }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
    return { status: answer.status, headers: answer.headers, body: await answer.json() };
  }

  return {
    sandbox,
    lines,
    storePath,
    url: () => url,
    send: (body, key = null, { query = "", signal } = {}) =>
      ask("POST", `/v1/messages${query}`, { body, key, ...(signal === undefined ? {} : { signal }) }),
    run: (automation, body, query = "") => ask("POST", `/v1/automations/${automation}/runs${query}`, { body }),
    get: (path) => ask("GET", path),
    expire: clock.expire,
    deadlines: clock.deadlines,
    async restart() {
      await relay.close();
      await start();
    },
  };
}

/** Messages that the account sent, as the sandbox has them. */
export const sentBy = ({ sandbox }: SendingRelay) => sandbox.messages().filter(({ origin }) => origin === "api");
