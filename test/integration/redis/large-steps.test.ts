import { expect, test } from "vitest";
import { anEvent, start } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

const { client, storeOf } = storesOnRedis([{ name: "all" }]);

/** More than Lua's stack has room for: 8000, and lists by score have two words for each. */
const many = 4_100;

test("one step writes thousands of due or held deliveries", async () => {
  const store = storeOf("many");
  // As when what one message had parked is released.
  await store.transact((tx) => {
    for (let seq = 1; seq <= many; seq += 1) {
      tx.operate(["deliver", String(seq), "unordered", "", String(start), "0"]);
      tx.operate(["deliver", String(seq), "ordered", "of-message", String(start), "0"]);
    }
  });
  expect(await client().zcard("{many}:due:unordered")).toBe(many);
  expect(await client().zcard("{many}:due:ordered")).toBe(1);
  expect(await client().zcard("{many}:held:ordered")).toBe(many - 1);
  expect((await client().smembers("{many}:routes")).sort()).toEqual(["ordered", "unordered"]);
});

test("audits a delivery with thousands of attempts, as a long outage leaves it", async () => {
  const store = storeOf("attempts");
  await store.accept(anEvent());
  const tries = 2 * many;
  const attempts = Array.from({ length: tries }, (_, n) => [`a${n + 1}`, `[${start},1,null,"refused"]`] as const);
  await client().hset("{attempts}:d:1:all", { ...Object.fromEntries(attempts), a: String(tries) });
  const { offenders, rows } = await store.inspecting.audit({ now: start, isRunning: false, mostOffenders: 10 }, () => {});
  // The attempts written here by hand are in no history.
  expect(offenders.filter(({ rule }) => rule !== "history differs")).toEqual([]);
  expect(rows).toEqual({ events: 1, deliveries: 1, attempts: tries });
});
