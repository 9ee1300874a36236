import { copyFileSync, existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Finding } from "../../../src/cli/doctor/finding.ts";
import type { RelayInstance } from "../../../src/model/answers.ts";
import { engines, storageOf } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { makeRelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { relayToken, settingsOf, webhookSecret } from "../../harness/relay-settings.ts";
import { freePort } from "../../setup/free-port.ts";
import { runOn, runProcessOn } from "./run-cli.ts";

async function examine(settingsPath: string, run = runOn): Promise<{ code: number | null; checks: Finding[] }> {
  const { code, out } = await run({ settingsPath }, "doctor", "--offline", "--json");
  return { code, checks: (JSON.parse(out) as { checks: Finding[] }).checks };
}

const levels = (checks: readonly Finding[], ...names: string[]) =>
  names.map((name) => checks.filter(({ check }) => check === name).map(({ level }) => level));
const message = (checks: readonly Finding[], name: string) => checks.find(({ check }) => check === name)?.message;

test.each(engines)("the relay of the settings passes; a changed file is reported until a reload (%s)", async (engine) => {
  const storage = await storageOf(engine);
  const relay = await startRelayHere({ settings: storage });
  const checked = ["relay", "version", "reload"] as const;
  const before = await examine(relay.settingsPath);
  expect(levels(before.checks, ...checked)).toEqual([["ok"], ["ok"], ["ok"]]);

  const secrets = ["a-new-secret-for-doctor", webhookSecret];
  relay.writeSettings({ ...storage, sources: { main: { account: "main", signature: { service: "acme", secrets } } } });
  const changed = await examine(relay.settingsPath);
  expect(levels(changed.checks, ...checked)).toEqual([["ok"], ["ok"], ["warn"]]);

  await relay.reload();
  const reloaded = await examine(relay.settingsPath);
  expect(levels(reloaded.checks, ...checked, "secrets")).toEqual([["ok"], ["ok"], ["ok"], ["ok", "ok"]]);
});

test.each(engines)("the instance is named by its id, without a secret (%s)", async (engine) => {
  const relay = await startRelayHere({ settings: await storageOf(engine) });
  const first = (await relay.ask("/v1/instance")).body as RelayInstance;
  expect((await relay.ask("/healthz")).body).toEqual({ status: "ok", instance: first.instance, version: first.version });
  expect(first).toMatchObject({ pid: process.pid, role: "both", store: { driver: engine } });
  const text = JSON.stringify(first);
  for (const secret of [relayToken, webhookSecret]) expect(text).not.toContain(secret);
  await relay.stop();
  await relay.start();
  const second = (await relay.ask("/v1/instance")).body as RelayInstance;
  expect(second.instance).not.toBe(first.instance);
  expect(second.store).toEqual(first.store);
});

test("another relay on the port of the settings fails, and gets no token", async () => {
  const other = await startRelayHere();
  const mine = await makeRelayHere();
  const settingsPath = join(mine.folder, "elsewhere.yaml");
  const tokens = [{ name: "mine", token: "a-token-of-mine-alone", scopes: ["read"] }];
  writeFileSync(settingsPath, JSON.stringify(settingsOf({ port: other.port, storePath: mine.storePath }, { control: { tokens } })));

  const notRunning = await examine(settingsPath);
  expect(notRunning.code).toBe(1);
  expect(levels(notRunning.checks, "relay")).toEqual([["fail"]]);
  expect(message(notRunning.checks, "relay")).toMatch(/^another relay answers at .*no process uses .*relay\.db$/);

  await mine.start();
  const running = await examine(settingsPath);
  expect(message(running.checks, "relay")).toMatch(
    new RegExp(`^another relay answers at .* is used by process ${process.pid} on .*\\(instance`),
  );
  expect(other.log().filter(({ msg }) => msg === "bad token")).toEqual([]);
  expect((await examine(mine.settingsPath)).checks.find(({ check }) => check === "relay")?.level).toBe("ok");
});

test("a copy of the store, for the same port, is another store", async () => {
  const relay = await startRelayHere();
  await postEvent(relay.webhookUrl, createMessages("copied").event());
  const copy = join(relay.folder, "copy.db");
  for (const end of ["", "-wal"]) if (existsSync(`${relay.storePath}${end}`)) copyFileSync(`${relay.storePath}${end}`, `${copy}${end}`);
  const settingsPath = join(relay.folder, "copy.yaml");
  writeFileSync(settingsPath, JSON.stringify(settingsOf({ port: relay.port, storePath: copy })));
  const { code, checks } = await examine(settingsPath);
  expect(code).toBe(1);
  expect(message(checks, "relay")).toContain(`no process uses ${copy}`);
});

test("lists what it did not check, with the reason; that alone is no failure", async () => {
  const relay = await startRelayHere();
  const token = (name: string, text: string, scope: string) => ({ control: { tokens: [{ name, token: text, scopes: [scope] }] } });

  relay.writeSettings(token("ops", "a-token-that-it-does-not-know", "read"));
  const unknown = await examine(relay.settingsPath);
  expect(unknown.code).toBe(0);
  expect(levels(unknown.checks, "relay", "version", "control API")).toEqual([["ok"], ["ok"], ["skip"]]);
  expect(message(unknown.checks, "control API")).toMatch(/^the relay refuses the tokens of .*\(401: unknown token\)/);

  relay.writeSettings(token("ops", "a-token-that-may-not-read", "replay"));
  expect(message((await examine(relay.settingsPath)).checks, "control API")).toMatch(/^no token in .* has the scope read/);

  await relay.stop();
  // The connections kept by this process ended with the relay.
  const stopped = await examine(relay.settingsPath, runProcessOn);
  expect(stopped.code).toBe(0);
  expect(levels(stopped.checks, "relay")).toEqual([["warn"]]);
  expect(stopped.checks.filter(({ level }) => level === "skip").map(({ check }) => check)).toEqual(["integrity", "destination", "service"]);
});

test("a server that answers like any other is no relay", async () => {
  const server = createServer((_request, response) => response.end(JSON.stringify({ status: "ok" })));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void server.close());
  const relay = await makeRelayHere();
  const settingsPath = join(relay.folder, "elsewhere.yaml");
  writeFileSync(settingsPath, JSON.stringify(settingsOf({ port: (server.address() as AddressInfo).port, storePath: relay.storePath })));
  const { code, checks } = await examine(settingsPath);
  expect(code).toBe(1);
  expect(checks.find(({ check }) => check === "relay")).toMatchObject({
    message: expect.stringMatching(/^what listens at http:\S+ is not a wamid-relay$/),
    todo: expect.stringContaining("ss -ltnp"),
  });
});

test("a process that only works has no control API: its settings are not checked", async () => {
  const storage = await storageOf("postgres");
  const worker = await startRelayHere({ settings: storage, role: "work" });
  const { checks } = await examine(worker.settingsPath);
  expect(levels(checks, "relay", "version", "control API")).toEqual([["ok"], ["ok"], ["skip"]]);
  expect(message(checks, "control API")).toContain("role work");

  const settingsPath = join(worker.folder, "elsewhere.yaml");
  const port = await freePort();
  writeFileSync(settingsPath, JSON.stringify(settingsOf({ port, storePath: "" }, storage)));
  expect(message((await examine(settingsPath)).checks, "relay")).toBe(`does not run: nothing listens at http://127.0.0.1:${port}`);
});

test("with server.control, the relay is asked on that port", async () => {
  const port = await freePort();
  const relay = await startRelayHere({ settings: { server: { control: { port } } } });
  const { checks } = await examine(relay.settingsPath);
  expect(levels(checks, "relay", "attention")).toEqual([["ok"], ["ok"]]);
  expect(message(checks, "relay")).toContain(`ready at http://127.0.0.1:${port} `);
});
