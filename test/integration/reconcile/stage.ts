import { onTestFinished } from "vitest";
import { startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { createJumpingClock } from "../../harness/jumping-clock.ts";
import { makeRelayHere } from "../../harness/relay-here.ts";
import type { SettingsParts } from "../../harness/relay-settings.ts";
import { usageOf } from "../../harness/sandbox-usage.ts";

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

export type Stage = Awaited<ReturnType<typeof openStage>>;

interface StageOptions {
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
  speed = 1,
  start = Date.UTC(2026, 10, 10, 12),
  plan = "enterprise",
  isUnlimited = false,
}: StageOptions = {}) {
  const clock = createJumpingClock({ speed, start });
  const sandbox = await startSandbox({ clock, plan, isUnlimited, seed: "reconcile" });
  const settingsWith = (more: SettingsParts) => ({
    accounts: {
      main: { baseUrl: sandbox.url, apiKey: sandbox.key, plan, share: 1, ...account, ...more },
    },
    sources: {
      main: { account: "main", signature: { service: "acme", secrets: [sandbox.secret] } },
    },
    reconcile: { schedule: "off" },
    ...settings,
  });
  const relay = await makeRelayHere({ settings: settingsWith({}), clock });
  onTestFinished(async () => {
    await relay.stop();
    await sandbox.close();
  });
  if (webhooks) sandbox.addWebhook({ url: relay.webhookUrl });
  await relay.start();
  const ask = (method: "GET" | "POST", path: string, body?: unknown) =>
    relay.ask(path, { method, body });
  return {
    sandbox,
    clock,
    storePath: relay.storePath,
    url: relay.url,
    lines: relay.log,
    /** As SIGHUP, with these settings of the account. */
    reload(more: SettingsParts) {
      relay.writeSettings(settingsWith(more));
      return relay.reload();
    },
    /** Sends so many messages past the relay, and registers them with it. */
    async send(count: number, digits = "1234") {
      const [template] = sandbox.templates();
      const sent: SentMessage[] = [];
      for (let n = 0; n < count; n++) {
        const to = `+54911${String(n).padStart(6, "0")}${digits}`;
        const { body } = await sandbox.call("POST", "/messages", {
          to,
          template: { id: template?.id, variables: {} },
        });
        sent.push(body as SentMessage);
      }
      const registrations = sent.map(({ id, wamid }) => ({ account: "main", id, wamid }));
      await ask("POST", "/v1/messages/track", registrations);
      return sent;
    },
    ask,
    metrics: async () => String((await relay.ask("/metrics")).body),
    /**
     * `POST /v1/reconcile` until there is no more; gives the last step's account with the counts
     * summed.
     */
    async reconcile() {
      const sums = { polled: 0, changed: 0, unchanged: 0, missing: 0, failed: 0 };
      let dueBy: string | null = null;
      for (;;) {
        const { status, body } = await ask("POST", "/v1/reconcile", { dueBy });
        if (status !== 200) throw new Error(`reconcile: ${JSON.stringify(body)}`);
        const step = body as { dueBy: string; more: boolean; accounts: AccountDone[] };
        const account = step.accounts[0] as AccountDone;
        for (const key of Object.keys(sums) as (keyof typeof sums)[]) sums[key] += account[key];
        if (!step.more) return { ...account, ...sums };
        dueBy = step.dueBy;
      }
    },
    apiCalls: async () => (await usageOf(sandbox)).apiCalls.used,
    /** Statuses of messages at the relay, by wamid. */
    async statuses() {
      const all = new Map<string, string | null>();
      let before: number | null = null;
      for (;;) {
        const { body } = await ask(
          "GET",
          `/v1/messages?limit=1000${before === null ? "" : `&before=${before}`}`,
        );
        const page = body as {
          data: { wamid: string; status: string | null }[];
          next: number | null;
        };
        for (const { wamid, status } of page.data) all.set(wamid, status);
        if (page.next === null) return all;
        before = page.next;
      }
    },
    /** True statuses at the service. */
    truth: () =>
      new Map(
        sandbox.messages().map(({ wamid, status }) => [wamid as string, status as string | null]),
      ),
  };
}
