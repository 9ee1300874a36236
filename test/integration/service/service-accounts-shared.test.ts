import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createServiceCalls } from "../../../src/app/sending.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { systemClock } from "../../../src/model/system-clock.ts";
import { createServiceAccounts } from "../../../src/service/accounts.ts";
import { connectRedis } from "../../../src/store/redis/connection.ts";
import { createRedisCaps } from "../../../src/store/redis/shared-limits.ts";
import type { RedisSettings } from "../../../src/store/settings.ts";
import { until } from "../../harness/until.ts";
import { startRedis } from "../../setup/redis.ts";

/** Answers `GET /me` to keys that begin with `good`, and 401 to others. */
async function openService() {
  const keys: string[] = [];
  const server = createServer((request, response) => {
    const key = (request.headers.authorization ?? "").replace("Bearer ", "");
    keys.push(key);
    response.writeHead(key.startsWith("good") ? 200 : 401, { "content-type": "application/json" });
    response.end(key.startsWith("good") ? "{}" : '{"error":"La clave no es válida.","cause":null}');
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  onTestFinished(() => void server.close());
  return { keys, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** The accounts of one process of a relay on this Redis. */
async function join(storageUrl: string, main: Record<string, unknown>) {
  const read = (of: Record<string, unknown>) =>
    parseSettings(
      JSON.stringify({ accounts: { main: of }, storage: { driver: "redis", url: storageUrl, commandTimeout: "30s" } }),
      "f",
      {},
    );
  const settings = read(main);
  const storage = settings.storage as RedisSettings;
  const presence = { id: crypto.randomUUID(), role: "both" as const, host: "here", pid: process.pid, version: "0", since: Date.now() };
  const connection = connectRedis(storage, { clock: systemClock, presence });
  await connection.opened();
  const dispatched: unknown[] = [];
  const services = createServiceAccounts(settings.accounts, {
    clock: systemClock,
    random: () => 0.5,
    recent: () => Array.from({ length: 500 }, () => ({ cap: "messages", priority: "send", at: Date.now() }) as const),
    shared: (account, baseUrl) => createRedisCaps(connection, storage.prefix, account, baseUrl),
    isTemporary: () => false,
    hooks: () => ({ dispatched: (call) => void dispatched.push(call) }),
  });
  onTestFinished(async () => {
    await services.close(200);
    await connection.close();
  });
  return {
    services,
    dispatched,
    me: () => services.client("main")?.me(),
    reload: (next: Record<string, unknown>) => services.reload(read(next).accounts),
  };
}

test("processes of one account share caps and stops, across a key change and a Redis outage", async () => {
  const server = await startRedis({ appendonly: "always" });
  onTestFinished(() => server.stop());
  const service = await openService();
  const good = { baseUrl: service.url, apiKey: "good-key" };
  const [one, other] = [await join(server.url, good), await join(server.url, good)];
  // What the store remembers of earlier calls is not asked for, and nothing is noted in it.
  for (const process of [one, other, one]) await process.me();
  expect([one.dispatched, other.dispatched]).toEqual([[], []]);
  await until("both see all calls", async () => {
    await other.me();
    return (other.services.limiters().get("main")?.caps.requests.used ?? 0) >= 4;
  });

  const bad = await join(server.url, { ...good, apiKey: "bad-key" });
  await expect(bad.me()).rejects.toMatchObject({ kind: "unauthenticated", local: false });
  await expect(bad.me()).rejects.toMatchObject({ kind: "unauthenticated", local: true });
  const another = await join(server.url, { ...good, apiKey: "bad-key" });
  await expect(another.me()).rejects.toMatchObject({ kind: "unauthenticated", local: true });
  expect(service.keys.filter((key) => key === "bad-key")).toHaveLength(1);
  await one.me();
  bad.reload(good);
  await bad.me();

  const asked = service.keys.length;
  await server.kill();
  const calls = createServiceCalls(one.services, Date.now);
  const steps = { signal: new AbortController().signal, starting: async () => {}, repeating: async () => {} };
  expect(await calls.sendMessage("main", { to: "+541" } as never, steps)).toMatchObject({
    type: "not-done",
    error: { code: "store_unavailable", retryAfterMs: 1_000 },
  });
  expect(service.keys).toHaveLength(asked);
  const again = await startRedis({ appendonly: "always", dir: server.dir, port: server.port });
  onTestFinished(() => again.stop());
  await until("calls go again", () =>
    one.me()?.then(
      () => true,
      () => false,
    ),
  );
  // What was let go before it died counts.
  expect(one.services.limiters().get("main")?.caps.requests.used).toBeGreaterThan(5);
});
