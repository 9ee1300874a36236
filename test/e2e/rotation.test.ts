// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of settings look like those of templates
// Slow: it rotates secrets of a running relay under load, by the steps of docs/how-to/rotate-secrets.md.
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { expect, onTestFinished, test } from "vitest";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { makeRelay, type RelayProcess } from "../harness/relay-process.ts";
import { relayToken, routeTo } from "../harness/relay-settings.ts";
import { runCli } from "../harness/run-cli.ts";
import { until } from "../harness/until.ts";

const hex = () => randomBytes(32).toString("hex");
const whsec = () => `whsec_${randomBytes(32).toString("base64")}`;

/** A server that knows exactly one secret at a time and verifies each delivery with both libraries. */
async function openReceiver(secret: string) {
  let known = secret;
  const seen = {
    verified: 0,
    refused: 0,
    bySignatures: new Map<number, number>(),
    run: { signatures: 0, length: 0 },
    ids: new Set<string>(),
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString("utf8");
      const headers = request.headers as Record<string, string>;
      const signatures = headers["webhook-signature"]?.split(" ").length ?? 0;
      seen.run = seen.run.signatures === signatures ? { signatures, length: seen.run.length + 1 } : { signatures, length: 1 };
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
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    seen,
    know(next: string) {
      known = next;
    },
    /** Once that many deliveries in a row carried this number of signatures, none signed before is still on its way. */
    signedBy: (signatures: number) =>
      until(`deliveries carry ${signatures} signatures`, () => seen.run.signatures === signatures && seen.run.length >= 100),
  };
}

/** Posts events without a pause, each once, signed as the service does at that moment. */
function startService(relay: RelayProcess, secret: string) {
  const messages = createMessages(`rotation ${secret.slice(0, 8)}`);
  let current = secret;
  let stopped = false;
  const inFlight = new Map<string, number>();
  const answers = new Map<string, number>();
  const count = (of: Map<string, number>, key: string, by: number) => of.set(key, (of.get(key) ?? 0) + by);
  const posters = Array.from({ length: 6 }, async () => {
    while (!stopped) {
      const signedBy = current;
      count(inFlight, signedBy, 1);
      // A lost connection counts as an answer other than 200.
      const answer = await postEvent(relay.webhookUrl, messages.event(), { secret: signedBy, timeoutMs: 60_000 }).then(
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
    /** Resolves once nothing signed with another secret is in flight, and some events were signed with this one. */
    async switchTo(next: string) {
      const old = current;
      current = next;
      const before = total();
      await until("the service signs with the new secret", () => inFlight.get(old) === 0 && total() >= before + 50);
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

const source = (...secrets: string[]) => ({ main: { account: "main", signature: { service: "acme", secrets } } });
const text = async (relay: RelayProcess, path: string) => String((await relay.ask(path)).body);
const metric = async (relay: RelayProcess, name: string) =>
  Number(new RegExp(`^${name} (\\S+)$`, "m").exec(await text(relay, "/metrics"))?.[1]);

/** `removed`: it removes a secret that has just verified events, and warns about that. */
async function reload(relay: RelayProcess, changed: readonly string[], removed = false): Promise<void> {
  const { code, stdout, stderr } = await runCli("reload", "--config", relay.settingsPath);
  expect({ code, stdout, stderr }).toEqual({
    code: 0,
    stdout: ["settings reloaded; changed:", ...changed.map((path) => `  ${path}`), ""].join("\n"),
    stderr: removed ? expect.stringMatching(/^warning: sources\.main no longer has the secret \w+, which verified .*\n$/) : "",
  });
}

interface Check {
  readonly check: string;
  readonly level: string;
  readonly message: string;
}

async function doctor(relay: RelayProcess): Promise<Check | undefined> {
  const { stdout } = await runCli("doctor", "--offline", "--json", "--config", relay.settingsPath);
  return (JSON.parse(stdout) as { checks: Check[] }).checks.find(({ check }) => check === "reload");
}

test("both rotations under load refuse no webhook, and every delivery verifies with svix and standardwebhooks", async () => {
  const [oldIn, newIn, oldOut, newOut] = [hex(), hex(), whsec(), whsec()];
  const receiver = await openReceiver(oldOut);
  const relay = await makeRelay();
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

  write(["${WEBHOOK_SECRET}"], { secret: "${CRM_SECRET}" }, { WEBHOOK_SECRET: oldIn, CRM_SECRET: oldOut });
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
  await reload(relay, ["sources.main.signature.secrets"], true);
  await service.more();

  // Outgoing: sign with both, let the receiver switch, drop the old one.
  const both = { secrets: ["${CRM_SECRET_OLD}", "${CRM_SECRET}"] };
  write(["${WEBHOOK_SECRET}"], both, { WEBHOOK_SECRET: newIn, CRM_SECRET_OLD: oldOut, CRM_SECRET: newOut });
  await reload(relay, ["routes[crm].to.secret", "routes[crm].to.secrets"]);
  await receiver.signedBy(2);
  receiver.know(newOut);
  await service.more();
  write(["${WEBHOOK_SECRET}"], { secret: "${CRM_SECRET}" }, { WEBHOOK_SECRET: newIn, CRM_SECRET: newOut });
  await reload(relay, ["routes[crm].to.secret", "routes[crm].to.secrets"]);
  await receiver.signedBy(1);

  await service.end();
  expect([...service.answers.keys()]).toEqual(["200"]);
  await until("all are delivered", () => receiver.seen.ids.size === service.total());
  expect(receiver.seen).toMatchObject({ refused: 0, verified: service.total() });
  expect(relay.pid()).toBe(pid);
  // The checks above can fail: the old secrets are refused now.
  expect((await postEvent(relay.webhookUrl, createMessages("old").event(), { secret: oldIn })).status).toBe(401);
  receiver.know(oldOut);
  expect((await postEvent(relay.webhookUrl, createMessages("last").event(), { secret: newIn })).status).toBe(200);
  await until("the receiver with the old secret refuses", () => receiver.seen.refused > 0);
  const logs = JSON.stringify(relay.log()) + relay.stderr();
  for (const secret of [oldIn, newIn, oldOut, newOut]) expect(logs).not.toContain(secret);
});

test("a faulty reload under load loses nothing, and the log, metrics, /readyz and doctor report it", async () => {
  const [incoming, outgoing] = [hex(), whsec()];
  const receiver = await openReceiver(outgoing);
  const relay = await makeRelay({
    settings: { sources: source("${file:incoming}"), routes: [routeTo(receiver.url, { to: { secret: outgoing } })] },
  });
  writeFileSync(join(relay.folder, "incoming"), `${incoming}\n`);
  await relay.start();
  const service = startService(relay, incoming);
  await service.more();
  const loadedAt = await metric(relay, "relay_settings_reload_timestamp_seconds");
  expect(await metric(relay, "relay_settings_reload_success")).toBe(1);
  expect(await doctor(relay)).toMatchObject({ level: "ok" });

  const good = readFileSync(relay.settingsPath, "utf8");
  const faulty = good.replace("${file:incoming}", "${file:missing}").replace('"level": "info"', '"level": "loud"');
  expect(faulty).not.toBe(good);
  writeFileSync(relay.settingsPath, faulty);
  relay.signal("SIGHUP");
  const isRefusal = ({ msg }: Record<string, unknown>) => String(msg).startsWith("settings not reloaded");
  const line = await until("it is logged", () => relay.log().find(isRefusal));
  expect(line).toMatchObject({
    trigger: "signal",
    faults: [
      { path: "sources.main.signature.secrets[0]", message: "needs the file missing, which does not exist" },
      { path: "log.level", message: expect.stringContaining("must be one of") },
    ],
  });
  expect(await metric(relay, "relay_settings_reload_success")).toBe(0);
  expect(await metric(relay, "relay_settings_reload_timestamp_seconds")).toBe(loadedAt);
  expect(await relay.ask("/readyz")).toMatchObject({
    status: 200,
    body: { ready: true, settings: { loadedAt: new Date(loadedAt * 1000).toISOString(), refusedAt: expect.any(String), faults: 2 } },
  });
  expect(await doctor(relay)).toMatchObject({ level: "fail", message: expect.stringContaining("2 faults") });
  expect((await relay.ask("/v1/reload")).body).toMatchObject({ result: "refused", trigger: "signal", faults: { length: 2 } });

  const refused = await runCli("reload", "--config", relay.settingsPath);
  expect(refused).toMatchObject({ code: 1, stdout: "" });
  expect(refused.stderr).toMatch(
    /the settings were not reloaded; .*\n.*relay\.yaml:\d+:\d+ .*secrets\[0\]: needs the file missing.*\n.*log\.level/,
  );
  await service.more();

  writeFileSync(relay.settingsPath, good);
  expect(await doctor(relay)).toMatchObject({ level: "warn", message: expect.stringContaining("refused the reload") });
  const again = await runCli("reload", "--config", relay.settingsPath);
  expect(again).toMatchObject({ code: 0, stdout: "settings reloaded; nothing changed\n" });
  expect(await metric(relay, "relay_settings_reload_success")).toBe(1);
  expect(await metric(relay, "relay_settings_reload_timestamp_seconds")).toBeGreaterThan(loadedAt);
  expect((await relay.ask("/readyz")).body).toMatchObject({ settings: { refusedAt: null, faults: 0 } });
  expect(await doctor(relay)).toMatchObject({ level: "ok" });

  await service.more();
  await service.end();
  expect([...service.answers.keys()]).toEqual(["200"]);
  await until("all are delivered", () => receiver.seen.ids.size === service.total());
  expect(receiver.seen).toMatchObject({ refused: 0, verified: service.total() });
});

test("reload works while a control token rotates, and names variables that the process environment overrides", async () => {
  const next = hex();
  const tokens = (...given: string[]) => ({
    control: { tokens: given.map((token, index) => ({ name: `t${index}`, token, scopes: ["read", "replay"] })) },
  });
  const relay = await makeRelay({ settings: tokens("${TOKEN}"), env: { PINNED: "one" } });
  const envPath = join(relay.folder, ".env");
  writeFileSync(envPath, `TOKEN=${relayToken}\nPINNED=two\n`);
  await relay.start();
  writeFileSync(envPath, `TOKEN=${relayToken}\nTOKEN_NEW=${next}\nPINNED=two\n`);
  relay.writeSettings(tokens("${TOKEN_NEW}", "${TOKEN}"));
  const { code, stderr } = await runCli("reload", "--config", relay.settingsPath);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: "warning: PINNED of the env file has no effect: the process environment has another value, which wins\n",
  });
  relay.writeSettings(tokens("${TOKEN_NEW}"));
  expect(await runCli("reload", "--config", relay.settingsPath)).toMatchObject({ code: 0 });
  expect((await relay.ask("/v1/reload")).status).toBe(401);
  const status = await runCli("reload", "--status", "--json", "--config", relay.settingsPath);
  expect(JSON.parse(status.stdout)).toMatchObject({ result: "applied", trigger: "api", overridden: ["PINNED"] });

  await relay.stop();
  expect(await runCli("reload", "--config", relay.settingsPath)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("nothing answers at"),
  });
});
