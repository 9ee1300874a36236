// @module-tag slow: two relays share the caps of a minute.
import { expect, onTestFinished, test } from "vitest";
import {
  type Sandbox,
  type SandboxOptions,
  startSandbox,
} from "../../src/sandbox/start-sandbox.ts";
import { storageOf } from "../harness/engines.ts";
import { type RelayHere, startRelayHere } from "../harness/relay-here.ts";
import { relayToken, type SettingsParts } from "../harness/relay-settings.ts";
import { runHere } from "../harness/run-here.ts";
import { usageOf } from "../harness/sandbox-usage.ts";
import { until } from "../harness/until.ts";

const phone = "+5491155550100";

/**
 * The messaging service in this process, and what starts processes of one relay that calls it, all
 * in this one.
 */
async function setUp({
  sandbox: options,
  account,
  settings,
}: {
  sandbox: SandboxOptions;
  account?: object;
  settings?: SettingsParts;
}) {
  const storage = await storageOf("postgres");
  const sandbox = await startSandbox(options);
  onTestFinished(() => sandbox.close());
  sandbox.customerWrites(phone, "Hola");
  const { plan } = options;
  const start = (role?: "receive"): Promise<RelayHere> =>
    startRelayHere({
      ...(role === undefined ? {} : { role }),
      settings: {
        accounts: {
          main: { baseUrl: sandbox.url, apiKey: sandbox.key, plan, share: 1, ...account },
        },
        reconcile: { schedule: "off" },
        ...settings,
        ...storage,
      },
    });
  return { sandbox, start };
}

async function send(
  { url }: RelayHere,
  key: string,
  query = "",
): Promise<{ status: number; body: { wamid?: string; code?: string } }> {
  const answer = await fetch(`${url}/v1/messages${query}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${relayToken}`,
      "content-type": "application/json",
      "idempotency-key": key,
    },
    body: JSON.stringify({ to: phone, text: key }),
  });
  return {
    status: answer.status,
    body: (await answer.json()) as { wamid?: string; code?: string },
  };
}

const sent = (sandbox: Sandbox) => sandbox.messages().filter(({ origin }) => origin === "api");

/** Sends again while another request makes the call. */
async function sendUntilDone(...order: Parameters<typeof send>): ReturnType<typeof send> {
  for (;;) {
    const answer = await send(...order);
    if (answer.status !== 409) return answer;
    expect(answer.body).toMatchObject({ code: "conflict" });
  }
}

test("concurrent sends with one key at two receivers are one call, and a command sees it", async () => {
  const { sandbox, start } = await setUp({ sandbox: { plan: "enterprise", isUnlimited: true } });
  const receivers = await Promise.all([start("receive"), start("receive")]);
  const keys = Array.from({ length: 15 }, (_, n) => `key ${n}`);
  const answers = await Promise.all(
    keys.map(async (key) => ({
      key,
      told: await Promise.all(
        [...receivers, ...receivers].map((receiver) => sendUntilDone(receiver, key)),
      ),
    })),
  );
  expect(sent(sandbox)).toHaveLength(keys.length);
  for (const { key, told } of answers) {
    const [message] = sent(sandbox).filter(({ text }) => text === key);
    expect(told.map(({ status, body }) => [status, body.wamid])).toEqual(
      told.map(() => [201, message?.wamid]),
    );
  }
  const [receiver] = receivers;
  const command = await runHere([
    "send",
    "--to",
    phone,
    "--text",
    "key 3",
    "--key",
    "key 3",
    "--json",
    "--config",
    receiver.settingsPath,
  ]);
  expect(command).toMatchObject({ code: 0, err: "" });
  expect(sent(sandbox)).toHaveLength(keys.length);
});

test("receivers share the cap of a minute and reject what exceeds it, so the service refuses nothing", async () => {
  const refused: string[] = [];
  // 60 messages a minute.
  const { sandbox, start } = await setUp({
    sandbox: {
      plan: "escala",
      onHappening: (happening) => {
        if (happening.what === "refused") refused.push(`${happening.status} ${happening.path}`);
      },
    },
    account: { share: 0.1 },
  });
  const receivers = await Promise.all([start("receive"), start("receive")]);
  const told = await Promise.all(
    Array.from({ length: 10 }, (_, n) =>
      receivers.map((receiver, at) => send(receiver, `${at} ${n}`, "?maxWait=500ms")),
    ).flat(),
  );
  const words = told.map(({ status, body }) => (status === 201 ? "sent" : body.code));
  expect(new Set(words)).toEqual(new Set(["sent", "service_rate_limited"]));
  // Six a minute, at one pace.
  const count = words.filter((word) => word === "sent").length;
  expect(count).toBeGreaterThan(0);
  expect(count).toBeLessThanOrEqual(6);
  expect([sent(sandbox).length, refused]).toEqual([count, []]);
});

test("two scheduled processes poll each message once", async () => {
  const { sandbox, start } = await setUp({
    sandbox: { plan: "enterprise" },
    settings: { reconcile: { schedule: "* * * * * *", after: "10m" } },
  });
  const [first, other] = [await start(), await start()];
  const calls = async () => (await usageOf(sandbox)).apiCalls.used;
  const [template] = sandbox.templates();
  const made = await Promise.all(
    Array.from({ length: 40 }, async (_, n) => {
      const to = `+54911555${String(n).padStart(4, "0")}1`;
      const { body } = await sandbox.call("POST", "/messages", {
        to,
        template: { id: template?.id, variables: {} },
      });
      const { id, wamid } = body as { id: string; wamid: string };
      return {
        account: "main",
        id,
        wamid,
        sentAt: new Date(Date.now() - 15 * 60_000).toISOString(),
      };
    }),
  );
  const before = await calls();
  expect((await first.ask("/v1/messages/track", { method: "POST", body: made })).status).toBe(200);
  const polled = async (of: RelayHere): Promise<number> => {
    const found = String((await of.ask("/metrics")).body).matchAll(
      /^relay_reconcile_polls_total\{.*\} (\d+)$/gm,
    );
    return [...found].reduce((sum, [, count]) => sum + Number(count), 0);
  };
  const polledByAll = async () =>
    (await Promise.all([polled(first), polled(other)])).reduce((sum, count) => sum + count, 0);
  await until("all were polled", async () => (await polledByAll()) >= made.length);
  // Told to, one looks again, and finds nothing left.
  const { body } = await other.ask("/v1/reconcile", { method: "POST", body: {} });
  expect(
    (body as { accounts: { polled: number }[] }).accounts.map(({ polled: count }) => count),
  ).toEqual([0]);
  expect([await polledByAll(), await calls()]).toEqual([made.length, before + made.length]);
});
