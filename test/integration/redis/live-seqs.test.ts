import type { Redis } from "ioredis";
import { expect, test } from "vitest";
import { keysOf, liveBits } from "../../../src/store/redis/keys.ts";
import { createLiveSeqs } from "../../../src/store/redis/live-seqs.ts";
import { redisOfFile } from "../../contract/redis-of-file.ts";

const { client } = redisOfFile();
let made = 0;

/** A store in which just these events are left, of `last` in all. */
async function withSeqs(seqs: readonly number[], last: number) {
  made += 1;
  const keys = keysOf(`live-${made}`);
  let asked = 0;
  const link = {
    run<T>(command: (redis: Redis) => Promise<T>): Promise<T> {
      asked += 1;
      return command(client());
    },
  };
  await client().set(`${keys.base}seq`, last);
  for (const seq of seqs) await client().setbit(keys.of(`live:${Math.floor(seq / liveBits)}`), seq % liveBits, 1);
  return { live: createLiveSeqs(keys, link), keys, asked: () => asked };
}

async function all(parts: AsyncGenerator<number[]>): Promise<number[][]> {
  const found: number[][] = [];
  for await (const part of parts) found.push(part);
  return found;
}

const holes = [1, 2, 9, liveBits - 1, liveBits, liveBits + 8, 5 * liveBits + 3, 5 * liveBits + 4, 9 * liveBits];

test("walks seqs over holes and bitmap ends in both directions", async () => {
  const { live } = await withSeqs(holes, 9 * liveBits + 20);
  expect((await all(live.forth(0, Number.MAX_SAFE_INTEGER, 4))).flat()).toEqual(holes);
  expect((await all(live.back(0, Number.MAX_SAFE_INTEGER, 4))).flat()).toEqual([...holes].reverse());
  expect(await all(live.forth(2, 5 * liveBits + 4, 2))).toEqual([[9, liveBits - 1], [liveBits, liveBits + 8], [5 * liveBits + 3]]);
  expect((await all(live.back(liveBits - 1, 9 * liveBits, 100))).flat()).toEqual([
    5 * liveBits + 4,
    5 * liveBits + 3,
    liveBits + 8,
    liveBits,
  ]);
  expect(await live.after(9, 3)).toEqual([liveBits - 1, liveBits, liveBits + 8]);
  expect(await live.after(9 * liveBits, 3)).toEqual([]);
  expect(await live.bounds()).toEqual({ oldest: 1, newest: 9 * liveBits });
});

test("finds the oldest seq behind thousands of purged bitmaps, and skips them the next time", async () => {
  const oldest = 3_000 * liveBits + 7;
  const { live, asked } = await withSeqs([oldest, oldest + 1], oldest + 1);
  expect(await live.bounds()).toEqual({ oldest, newest: oldest + 1 });
  const first = asked();
  expect(await live.bounds()).toEqual({ oldest, newest: oldest + 1 });
  expect(asked() - first).toBeLessThan(first);
  expect(await live.after(0, 10)).toEqual([oldest, oldest + 1]);
});

test("starts over when Redis returns empty", async () => {
  const { live, keys } = await withSeqs([7 * liveBits], 7 * liveBits);
  expect(await live.bounds()).toEqual({ oldest: 7 * liveBits, newest: 7 * liveBits });
  await client().del(keys.of("live:7"));
  await client().del(`${keys.base}seq`);
  expect(await live.bounds()).toBeNull();
  await client().set(`${keys.base}seq`, 2);
  await client().setbit(keys.of("live:0"), 2, 1);
  expect(await live.bounds()).toEqual({ oldest: 2, newest: 2 });
  expect(await live.after(0, 10)).toEqual([2]);
});

test("a store without events has no bounds", async () => {
  const { live } = await withSeqs([], 0);
  expect(await live.bounds()).toBeNull();
  expect(await all(live.back(0, 100, 10))).toEqual([]);
});
