import { writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Finding } from "../../../src/cli/doctor/finding.ts";
import type { RelayInstance } from "../../../src/model/answers/relay.ts";
import { engines, storageOf } from "../../harness/engines.ts";
import { makeRelayHere, type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import {
  relayToken,
  type SettingsParts,
  settingsOf,
  webhookSecret,
} from "../../harness/relay-settings.ts";
import { freePort } from "../../setup/free-port.ts";
import { doctorOn, jsonOf, runOn, runProcessOn } from "./run-cli.ts";

const examine = (relay: { readonly settingsPath: string }) => doctorOn(relay, "--offline");
const levels = ({ checks }: Awaited<ReturnType<typeof doctorOn>>, ...names: string[]) =>
  names.map((name) => checks.flatMap(({ check, level }) => (check === name ? [level] : [])).join());
/** Settings that name the port of another relay. */
function elsewhere({ folder, storePath }: RelayHere, port: number, parts: SettingsParts = {}) {
  const settingsPath = join(folder, "elsewhere.yaml");
  writeFileSync(settingsPath, JSON.stringify(settingsOf({ port, storePath }, parts)));
  return { settingsPath };
}

test("the relay of the settings passes; a changed file is reported until a reload", async () => {
  const relay = await startRelayHere();
  const checked = ["relay", "version", "reload", "secrets"] as const;
  expect(levels(await examine(relay), ...checked)).toEqual(["ok", "ok", "ok", "ok"]);
  const secrets = ["a-new-secret-for-doctor", webhookSecret];
  relay.writeSettings({
    sources: { main: { account: "main", signature: { service: "acme", secrets } } },
  });
  const changed = await examine(relay);
  expect([changed.code, ...levels(changed, ...checked)]).toEqual([0, "ok", "ok", "warn", "ok"]);
  await relay.reload();
  expect(levels(await examine(relay), ...checked)).toEqual(["ok", "ok", "ok", "ok,ok"]);
});

test("a faulty settings file does not hide how the relay runs with those that it has", async () => {
  const relay = await startRelayHere();
  relay.writeSettings({ log: { level: "loud" } });
  const found = await examine(relay);
  expect([
    found.code,
    ...levels(found, "settings", "relay", "version", "reload", "backlog", "attention"),
  ]).toEqual([...[1, "fail", "ok", "ok", "warn", "ok", "ok"]]);
  expect(found.checks.find(({ check }) => check === "reload")?.todo).toContain(
    "correct the settings file",
  );
});

test("reload names the file that the relay reads, where it is another one", async () => {
  const relay = await startRelayHere();
  expect(await runOn(relay, "reload")).toMatchObject({ code: 0, err: "" });
  const other = elsewhere(relay, relay.port);
  expect(await runOn(other, "reload")).toMatchObject({
    code: 0,
    err: `note: the relay reads ${relay.settingsPath}, not ${other.settingsPath}\n`,
  });
});

test.each(engines)("the instance is named by its id, without a secret (%s)", async (engine) => {
  const relay = await startRelayHere({ settings: await storageOf(engine) });
  const first = (await relay.ask("/v1/instance")).body as RelayInstance;
  expect((await relay.ask("/healthz")).body).toEqual({
    status: "ok",
    instance: first.instance,
    version: first.version,
  });
  expect(first).toMatchObject({ pid: process.pid, role: "both", store: { driver: engine } });
  for (const secret of [relayToken, webhookSecret])
    expect(JSON.stringify(first)).not.toContain(secret);
  expect(levels(await examine(relay), "relay", "version")).toEqual(["ok", "ok"]);
  await relay.stop();
  await relay.start();
  const second = (await relay.ask("/v1/instance")).body as RelayInstance;
  expect(second.instance).not.toBe(first.instance);
  expect(second.store).toEqual(first.store);
});

test("another relay on the port of the settings fails, and gets no token", async () => {
  const other = await startRelayHere();
  const mine = await makeRelayHere();
  const control = { tokens: [{ name: "mine", token: "a-token-of-mine-alone", scopes: ["read"] }] };
  const settings = elsewhere(mine, other.port, { control });
  const notRunning = await examine(settings);
  expect([notRunning.code, ...notRunning.said("relay")]).toEqual([
    1,
    expect.stringMatching(/^fail another relay answers at .*no process uses .*relay\.db$/),
  ]);
  await mine.start();
  const used = new RegExp(
    `^fail another relay answers at .* is used by process ${process.pid} on .*\\(instance`,
  );
  expect((await examine(settings)).said("relay")).toEqual([expect.stringMatching(used)]);
  expect(other.log().filter(({ msg }) => msg === "bad token")).toEqual([]);
  expect(levels(await examine(mine), "relay")).toEqual(["ok"]);
});

test("lists what it did not check, with the reason; that alone is no failure", async () => {
  const relay = await startRelayHere();
  for (const [token, scope, reason] of [
    [
      "a-token-that-it-does-not-know",
      "read",
      /^skip the relay refuses the tokens of .*\(401: unknown token\)/,
    ],
    ["a-token-that-may-not-read", "replay", /^skip no token in .* has the scope read/],
  ] as const) {
    relay.writeSettings({ control: { tokens: [{ name: "ops", token, scopes: [scope] }] } });
    const found = await examine(relay);
    expect([found.code, ...levels(found, "relay", "version")]).toEqual([0, "ok", "ok"]);
    expect(found.said("control API")).toEqual([expect.stringMatching(reason)]);
  }
  await relay.stop();
  // The connections kept by this process ended with the relay.
  const { checks } = jsonOf<{ checks: Finding[] }>(
    await runProcessOn(relay, "doctor", "--offline", "--json"),
  );
  expect(checks.find(({ check }) => check === "relay")?.level).toBe("warn");
  expect(checks.flatMap(({ level, check }) => (level === "skip" ? [check] : []))).toEqual([
    "integrity",
    "destination",
    "service",
  ]);
});

test("a process that only works has no control API: its settings are not checked", async () => {
  const storage = await storageOf("postgres");
  const worker = await startRelayHere({ settings: storage, role: "work" });
  const found = await examine(worker);
  expect(levels(found, "relay", "version")).toEqual(["ok", "ok"]);
  expect(found.said("control API")).toEqual([expect.stringMatching(/^skip .*role work/)]);
  const port = await freePort();
  expect((await examine(elsewhere(worker, port, storage))).said("relay")).toEqual([
    `warn nothing listens at http://127.0.0.1:${port}; the store is used by process ${process.pid} on ${hostname()}`,
  ]);
});

test("with server.control, the relay is asked on that port", async () => {
  const port = await freePort();
  const relay = await startRelayHere({ settings: { server: { control: { port } } } });
  const found = await examine(relay);
  expect(found.said("relay")).toEqual([
    expect.stringContaining(`ok ready at http://127.0.0.1:${port} `),
  ]);
  expect(levels(found, "attention")).toEqual(["ok"]);
});
