// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of settings look like those of templates
// @module-tag slow: it rotates secrets of a running relay under load, by the steps of
// docs/how-to/rotate-secrets.md.
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { expect, onTestFinished, test } from "vitest";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { makeRelayHere } from "../harness/relay-here.ts";
import { makeRelay, type RelayProcess } from "../harness/relay-process.ts";
import { relayToken, routeTo } from "../harness/relay-settings.ts";
import { until } from "../harness/until.ts";
import { runOn } from "../integration/cli/run-cli.ts";
import { startHttp } from "../integration/url-destination/downstream.ts";

const hex = () => randomBytes(32).toString("hex");
const whsec = () => `whsec_${randomBytes(32).toString("base64")}`;

/**
 * A server that knows exactly one secret at a time and verifies each delivery with both libraries.
 */
async function openReceiver(secret: string) {
  let known = secret;
  const seen = {
    verified: 0,
    refused: 0,
    run: { signatures: 0, length: 0 },
    ids: new Set<string>(),
  };
  const { url, seen: requests } = await startHttp((_request, response) => {
    const { body, headers: given } = requests.at(-1) as (typeof requests)[0];
    const headers = given as Record<string, string>;
    const signatures = headers["webhook-signature"]?.split(" ").length ?? 0;
    seen.run =
      seen.run.signatures === signatures
        ? { signatures, length: seen.run.length + 1 }
        : { signatures, length: 1 };
    try {
      new Webhook(known).verify(body, headers);
      new SvixWebhook(known).verify(body, headers);
      seen.verified += 1;
      seen.ids.add(headers["webhook-id"] ?? "");
      response.end();
    } catch {
      seen.refused += 1;
      response.writeHead(401).end();
    }
  });
  return {
    url,
    seen,
    know(next: string) {
      known = next;
    },
    /**
     * Once that many deliveries in a row carried this number of signatures, none signed before is
     * still on its way.
     */
    signedBy: (signatures: number) =>
      until(
        `deliveries carry ${signatures} signatures`,
        () => seen.run.signatures === signatures && seen.run.length >= 100,
      ),
  };
}

/** Posts events without a pause, each once, signed as the service does at that moment. */
function startService(relay: RelayProcess, secret: string) {
  const messages = createMessages(`rotation ${secret.slice(0, 8)}`);
  let current = secret;
  let stopped = false;
  const inFlight = new Map<string, number>();
  const answers = new Map<string, number>();
  const count = (of: Map<string, number>, key: string, by: number) =>
    of.set(key, (of.get(key) ?? 0) + by);
  const posters = Array.from({ length: 6 }, async () => {
    while (!stopped) {
      const signedBy = current;
      count(inFlight, signedBy, 1);
      // A lost connection counts as an answer other than 200.
      const answer = await postEvent(relay.webhookUrl, messages.event(), {
        secret: signedBy,
        timeoutMs: 60_000,
      }).then(
        ({ status }) => String(status),
        (error: Error) => `${error.message}: ${String(error.cause)}`,
      );
      count(inFlight, signedBy, -1);
      count(answers, answer, 1);
    }
  });
  onTestFinished(() => {
    stopped = true;
  });
  const total = () => [...answers.values()].reduce((sum, each) => sum + each, 0);
  return {
    answers,
    total,
    /**
     * Resolves once nothing signed with another secret is in flight, and some events were signed
     * with this one.
     */
    async switchTo(next: string) {
      const old = current;
      current = next;
      const before = total();
      await until(
        "the service signs with the new secret",
        () => inFlight.get(old) === 0 && total() >= before + 50,
      );
    },
    async more(events = 50) {
      const before = total();
      await until("the service has sent more", () => total() >= before + events);
    },
    async end() {
      stopped = true;
      await Promise.all(posters);
    },
  };
}

const source = (...secrets: string[]) => ({
  main: { account: "main", signature: { service: "acme", secrets } },
});

async function reload(
  relay: RelayProcess,
  changed: readonly string[],
  err: unknown = "",
): Promise<void> {
  expect(await runOn(relay, "reload")).toEqual({
    code: 0,
    out: ["settings reloaded; changed:", ...changed.map((path) => `  ${path}`), ""].join("\n"),
    err,
  });
}

test("both rotations under load refuse no webhook, and every delivery verifies with svix and standardwebhooks", async () => {
  const [oldIn, newIn, oldOut, newOut] = [hex(), hex(), whsec(), whsec()];
  const receiver = await openReceiver(oldOut);
  const relay = await makeRelay({ env: { PINNED: "one" } });
  const envPath = join(relay.folder, ".env");
  const route = (to: object) => [routeTo(receiver.url, { name: "crm", to })];
  const write = (secrets: string[], to: object, env: Record<string, string>) => {
    writeFileSync(
      envPath,
      Object.entries(env)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(""),
    );
    relay.writeSettings({ sources: source(...secrets), routes: route(to) });
  };

  write(
    ["${WEBHOOK_SECRET}"],
    { secret: "${CRM_SECRET}" },
    { WEBHOOK_SECRET: oldIn, CRM_SECRET: oldOut },
  );
  await relay.start();
  const pid = relay.pid();
  const service = startService(relay, oldIn);
  await service.more();

  // Incoming: add the new secret, give it to the service, drop the old one.
  const out = { CRM_SECRET: oldOut };
  write(
    ["${WEBHOOK_SECRET}", "${WEBHOOK_SECRET_OLD}"],
    { secret: "${CRM_SECRET}" },
    { WEBHOOK_SECRET: newIn, WEBHOOK_SECRET_OLD: oldIn, ...out },
  );
  await reload(relay, ["sources.main.signature.secrets"]);
  await service.switchTo(newIn);
  write(["${WEBHOOK_SECRET}"], { secret: "${CRM_SECRET}" }, { WEBHOOK_SECRET: newIn, ...out });
  const removed = expect.stringMatching(
    /^warning: sources\.main no longer has the secret \w+, which verified .*\n$/,
  );
  await reload(relay, ["sources.main.signature.secrets"], removed);
  await service.more();

  // Outgoing: sign with both, let the receiver switch, drop the old one.
  const both = { secrets: ["${CRM_SECRET_OLD}", "${CRM_SECRET}"] };
  write(["${WEBHOOK_SECRET}"], both, {
    WEBHOOK_SECRET: newIn,
    CRM_SECRET_OLD: oldOut,
    CRM_SECRET: newOut,
  });
  await reload(relay, ["routes[crm].to.secret", "routes[crm].to.secrets"]);
  await receiver.signedBy(2);
  receiver.know(newOut);
  await service.more();
  write(
    ["${WEBHOOK_SECRET}"],
    { secret: "${CRM_SECRET}" },
    { WEBHOOK_SECRET: newIn, CRM_SECRET: newOut, PINNED: "two" },
  );
  const overridden =
    "warning: PINNED of the env file has no effect: the process environment has another value, which wins\n";
  await reload(relay, ["routes[crm].to.secret", "routes[crm].to.secrets"], overridden);
  expect((await relay.ask("/v1/reload")).body).toMatchObject({
    result: "applied",
    trigger: "api",
    overridden: ["PINNED"],
  });
  await receiver.signedBy(1);

  await service.end();
  expect([...service.answers.keys()]).toEqual(["200"]);
  await until("all are delivered", () => receiver.seen.ids.size === service.total());
  expect(receiver.seen).toMatchObject({ refused: 0, verified: service.total() });
  expect(relay.pid()).toBe(pid);
  // The checks above can fail: the old secrets are refused now.
  expect(
    (await postEvent(relay.webhookUrl, createMessages("old").event(), { secret: oldIn })).status,
  ).toBe(401);
  receiver.know(oldOut);
  expect(
    (await postEvent(relay.webhookUrl, createMessages("last").event(), { secret: newIn })).status,
  ).toBe(200);
  await until("the receiver with the old secret refuses", () => receiver.seen.refused > 0);
  const logs = JSON.stringify(relay.log()) + relay.stderr();
  for (const secret of [oldIn, newIn, oldOut, newOut]) expect(logs).not.toContain(secret);
});

test("the log, metrics, /readyz, doctor and the command report a faulty reload, and the next one that succeeds", async () => {
  const relay = await makeRelayHere({
    settings: { sources: source("${file:incoming}"), routes: [] },
  });
  writeFileSync(join(relay.folder, "incoming"), `${hex()}\n`);
  await relay.start();
  const metric = async (name: string) =>
    Number(
      new RegExp(`^relay_settings_reload_${name} (\\S+)$`, "m").exec(
        String((await relay.ask("/metrics")).body),
      )?.[1],
    );
  const doctor = async () => {
    const { checks } = JSON.parse((await runOn(relay, "doctor", "--offline", "--json")).out) as {
      checks: { check: string }[];
    };
    return checks.find(({ check }) => check === "reload");
  };
  const loadedAt = await metric("timestamp_seconds");
  expect(await metric("success")).toBe(1);
  expect(await doctor()).toMatchObject({ level: "ok" });

  const good = readFileSync(relay.settingsPath, "utf8");
  writeFileSync(
    relay.settingsPath,
    good
      .replace("${file:incoming}", "${file:missing}")
      .replace('"level": "info"', '"level": "loud"'),
  );
  const refused = await runOn(relay, "reload");
  expect(refused).toMatchObject({ code: 1, out: "" });
  expect(refused.err).toMatch(
    /the settings were not reloaded; .*\n.*relay\.yaml:\d+:\d+ .*secrets\[0\]: needs the file missing.*\n.*log\.level/,
  );
  expect(
    relay.log().find(({ msg }) => String(msg).startsWith("settings not reloaded")),
  ).toMatchObject({
    trigger: "api",
    faults: [
      {
        path: "sources.main.signature.secrets[0]",
        message: "needs the file missing, which does not exist",
      },
      { path: "log.level", message: expect.stringContaining("must be one of") },
    ],
  });
  expect([await metric("success"), await metric("timestamp_seconds")]).toEqual([0, loadedAt]);
  expect(await relay.ask("/readyz")).toMatchObject({
    status: 200,
    body: {
      ready: true,
      settings: {
        loadedAt: new Date(loadedAt * 1000).toISOString(),
        refusedAt: expect.any(String),
        faults: 2,
      },
    },
  });
  expect(await doctor()).toMatchObject({
    level: "fail",
    message: expect.stringContaining("2 faults"),
  });
  expect((await relay.ask("/v1/reload")).body).toMatchObject({
    result: "refused",
    trigger: "api",
    faults: { length: 2 },
  });

  writeFileSync(relay.settingsPath, good);
  expect(await doctor()).toMatchObject({
    level: "warn",
    message: expect.stringContaining("refused the reload"),
  });
  expect(await runOn(relay, "reload")).toMatchObject({
    code: 0,
    out: "settings reloaded; nothing changed\n",
  });
  expect(await metric("success")).toBe(1);
  expect(await metric("timestamp_seconds")).toBeGreaterThan(loadedAt);
  expect((await relay.ask("/readyz")).body).toMatchObject({
    settings: { refusedAt: null, faults: 0 },
  });
  expect(await doctor()).toMatchObject({ level: "ok" });
});

test("reload works while a control token rotates", async () => {
  const next = hex();
  const tokens = (...given: string[]) => ({
    control: {
      tokens: given.map((token, index) => ({
        name: `t${index}`,
        token,
        scopes: ["read", "replay"],
      })),
    },
  });
  const relay = await makeRelayHere({ settings: tokens("${TOKEN}") });
  const envPath = join(relay.folder, ".env");
  writeFileSync(envPath, `TOKEN=${relayToken}\n`);
  await relay.start();
  writeFileSync(envPath, `TOKEN=${relayToken}\nTOKEN_NEW=${next}\n`);
  relay.writeSettings(tokens("${TOKEN_NEW}", "${TOKEN}"));
  expect(await runOn(relay, "reload")).toMatchObject({ code: 0, err: "" });
  relay.writeSettings(tokens("${TOKEN_NEW}"));
  expect(await runOn(relay, "reload")).toMatchObject({ code: 0 });
  expect((await relay.ask("/v1/reload")).status).toBe(401);
  const status = await runOn(relay, "reload", "--status", "--json");
  expect(JSON.parse(status.out)).toMatchObject({ result: "applied", trigger: "api" });
});
