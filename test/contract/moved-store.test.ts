import { describe, expect, test } from "vitest";
import { carryOver } from "../../src/store/migrate/carry.ts";
import { countBoth } from "../../src/store/migrate/check.ts";
import { openSource } from "../../src/store/migrate/source.ts";
import type { Rules } from "../../src/store/rules.ts";
import { acceptingContract } from "./accepting-contract.ts";
import { openWith } from "./contract-tools.ts";
import { groupContract } from "./group-contract.ts";
import { hydrationContract } from "./hydration-contract.ts";
import { orderContract } from "./order-contract.ts";
import { parkingContract } from "./parking-contract.ts";
import { pollContract } from "./poll-contract.ts";
import { redisOfFile } from "./redis-of-file.ts";
import { newPrefix, openRedisSubject } from "./redis-subject.ts";
import { retentionContract } from "./retention-contract.ts";
import { secretUsesContract } from "./secret-uses-contract.ts";
import { settlingContract } from "./settling-contract.ts";
import { openSqliteSubject } from "./sqlite-subject.ts";
import { start } from "./store-events.ts";
import type { ContractSubject } from "./store-port.ts";

const { url, link } = redisOfFile();

/** Carries the file over, and holds the counts of both sides to one another. */
async function move(path: string): Promise<string> {
  const prefix = newPrefix();
  const source = openSource(path);
  try {
    const migration = await carryOver({ source, link, prefix, now: () => start, prepare: async () => {}, progress: () => {} });
    const differing = (await countBoth({ source, link, prefix, progress: () => {} })).filter((one) => one.file !== one.redis);
    if (differing.length > 0) throw new Error(`counts differ: ${JSON.stringify(differing)}`);
    await migration.end();
  } finally {
    source.close();
  }
  return prefix;
}

/** A store that is the embedded engine's until it is opened again, and then the distributed engine's. */
async function openMovedSubject(rules: Rules): Promise<ContractSubject> {
  const file = await openSqliteSubject(rules);
  let moved: ContractSubject | null = null;
  return {
    store: file.store,
    async reopen(other = rules) {
      if (moved !== null) return moved.reopen(other);
      await file.close();
      moved = await openRedisSubject(url(), other, { prefix: await move(file.path) });
      return moved.store;
    },
    async end() {
      await moved?.end();
      await file.end();
    },
  };
}

/** Where a contract opens its store again, it goes on in Redis. Those that go random courses are left out: migrate.test.ts does that. */
describe("moved from SQLite to Redis: the store's contract", () => {
  acceptingContract(openMovedSubject);
  groupContract(openMovedSubject);
  orderContract(openMovedSubject);
  settlingContract(openMovedSubject);
  parkingContract(openMovedSubject);
  secretUsesContract(openMovedSubject);
  retentionContract(openMovedSubject);
  pollContract(openMovedSubject);
  hydrationContract(openMovedSubject);
});

test("keys of sends keep their state and answer, and a call in flight has an unknown outcome", async () => {
  const subject = await openWith(openMovedSubject, []);
  const key = (kind: "message" | "run", name: string) => ({ account: "main", kind, key: name }) as const;
  const claim = { fingerprint: "f", resend: 0, about: "a", at: start };
  for (const one of [key("message", "under way"), key("message", "sent"), key("run", "order-1")]) await subject.store.beginSend(one, claim);
  const sent = { type: "run", runId: "run-1", reference: "order-1", metadata: { n: 1 } } as const;
  await subject.store.settleSend(key("run", "order-1"), { end: "done", at: start, answer: { runId: "run-1" }, sent });
  await subject.store.settleSend(key("message", "sent"), { end: "unknown" });

  const store = await subject.reopen();
  expect(await store.findSend(key("message", "under way"))).toMatchObject({ state: "unknown", attempts: 1 });
  expect(await store.findSend(key("message", "sent"))).toMatchObject({ state: "unknown" });
  expect(await store.beginSend(key("run", "order-1"), claim)).toMatchObject({ state: "done", answer: { runId: "run-1" } });
  expect(await store.forgetSends(start + 1, 10)).toBe(2);
  expect(await store.findSend(key("run", "order-1"))).not.toBeNull();
});
