import { expect, test } from "vitest";
import { createReadTogether } from "../../../src/store/redis/read-listen.ts";

function subject() {
  let time = 0;
  let fails = false;
  const asked: (readonly number[])[] = [];
  const read = async (seqs: readonly number[]) => {
    asked.push(seqs);
    if (fails) throw new Error("away");
    return new Map(seqs.filter((seq) => seq < 100).map((seq) => [seq, `event ${seq}`] as const));
  };
  const together = createReadTogether(
    read,
    () => 1,
    { ms: 250, weight: 10 },
    () => time,
  );
  return {
    asked,
    read: async (...seqs: number[]) => [...(await together.of(seqs)).values()],
    pass: (ms: number) => {
      time += ms;
    },
    fail: (so: boolean) => {
      fails = so;
    },
  };
}

test("many who ask at once ask for each seq once, and get it in the order they asked", async () => {
  const { asked, read } = subject();
  const answers = await Promise.all([read(1, 2, 3), read(2, 3, 4), read(1, 4)]);
  expect(asked).toEqual([[1, 2, 3], [4]]);
  expect(answers).toEqual([
    ["event 1", "event 2", "event 3"],
    ["event 2", "event 3", "event 4"],
    ["event 1", "event 4"],
  ]);
  expect(await read(99, 100)).toEqual(["event 99"]);
});

test("what was read is forgotten after moments, or when it is much", async () => {
  const { asked, read, pass } = subject();
  await read(1);
  pass(300);
  await read(1);
  expect(asked.length).toBe(1);
  pass(300);
  await read(1);
  expect(asked.length).toBe(2);
  await read(...Array.from({ length: 20 }, (_, n) => n + 10));
  await read(50);
  await read(...Array.from({ length: 20 }, (_, n) => n + 60));
  await read(51);
  await read(1);
  expect(asked.at(-1)).toEqual([1]);
});

test("a read that failed is no answer for the next", async () => {
  const { read, fail } = subject();
  fail(true);
  await expect(Promise.all([read(1), read(1)])).rejects.toThrow("away");
  fail(false);
  expect(await read(1)).toEqual(["event 1"]);
});
