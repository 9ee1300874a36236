// Slow: it kills a migration twice and compares both stores.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis as Client } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { readMigrationRow } from "../../../src/store/redis/schema.ts";
import { openSqliteStore } from "../../../src/store/sqlite/open.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { redisForTest } from "../../harness/redis-states.ts";
import { entry, makeRelay } from "../../harness/relay-process.ts";
import { runCli } from "../../harness/run-cli.ts";
import { until } from "../../harness/until.ts";

const events = 3_000;

async function makeFile(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "migrate-killed-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "relay.db");
  const store = openSqliteStore(path, rulesFor([{ name: "all" }]), { committed: () => {}, failed: () => {} });
  for (let from = 0; from < events; from += 500) {
    await Promise.all(Array.from({ length: 500 }, (_, n) => store.accept(anEvent({ wamid: `w${from + n}`, receivedAt: start + from }))));
  }
  await store.close();
  return path;
}

/**
 * A way to Redis that passes on no more bytes than it was told to, so that a migration stands still while the test looks at
 * it. Closed at the test's end.
 */
async function openGate(to: number): Promise<{ readonly url: string; pass(): void }> {
  let left = 0;
  let more = Promise.withResolvers<void>();
  const server = createServer((client) => {
    const redis = connect(to, "127.0.0.1");
    for (const socket of [client, redis]) socket.on("error", () => {});
    redis.pipe(client);
    client.on("close", () => redis.destroy());
    client.on("data", async (chunk) => {
      client.pause();
      while (left < chunk.length) await more.promise;
      left -= chunk.length;
      redis.write(chunk);
      client.resume();
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    pass() {
      // More than a chunk of a socket, and a small part of what a migration sends.
      left = 262_144;
      more.resolve();
      more = Promise.withResolvers();
    },
  };
}

test("the same command continues after two kills and finishes", { tags: ["slow"] }, async () => {
  const [redis, path] = await Promise.all([redisForTest(), makeFile()]);
  const client = new Client(redis.url);
  onTestFinished(() => client.disconnect());
  const gate = await openGate(redis.port);
  const settingsAt = (url: string) => ({ storage: { driver: "redis", url, prefix: "killed", commandTimeout: "30s" } });
  const relay = await makeRelay();
  const command = ["migrate", "--from", `sqlite:${path}`, "--to", "redis", "--config", relay.settingsPath];
  const place = async () => {
    const row = await client.get("{killed}:migration");
    return row === null ? { step: 0, after: 0, finishedAt: null } : readMigrationRow(row);
  };

  for (const reach of [500, 1_500]) {
    relay.writeSettings(settingsAt(gate.url));
    const child = spawn(process.execPath, [entry, ...command], { stdio: "ignore" });
    const gone = once(child, "exit");
    await until(`events up to ${reach} are there`, async () => {
      gate.pass();
      const { step, after } = await place();
      return step > 3 || (step === 3 && after >= reach);
    });
    child.kill("SIGKILL");
    await gone;
    expect(await place()).toMatchObject({ finishedAt: null });
    relay.writeSettings(settingsAt(redis.url));
    expect((await relay.startRefused()).code).toBe(1);
  }
  const { code, stdout } = await runCli(...command, "--json");
  const report = JSON.parse(stdout) as {
    result: string;
    counts: { kind: string; file: number; redis: number }[];
    audit: { balanced: boolean };
  };
  expect({ code, result: report.result, balanced: report.audit.balanced }).toEqual({ code: 0, result: "resumed", balanced: true });
  expect(report.counts).toContainEqual({ kind: "deliveries waiting", file: events, redis: events });
  await relay.start();
});
