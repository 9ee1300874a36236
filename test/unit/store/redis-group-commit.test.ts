import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { StoreUnavailable } from "../../../src/store/port.ts";
import { createGroupCommit } from "../../../src/store/redis/group-commit.ts";

const MiB = 1024 * 1024;

/** Steps are their sizes in bytes; gives those of each batch, in the order in which they were sent. */
async function batchesOf(sizes: readonly number[], workOf = (_bytes: number) => 1): Promise<number[][]> {
  const sent: number[][] = [];
  const commit = createGroupCommit<number, number>({
    write: () => [],
    workOf,
    bytesOf: (bytes) => bytes,
    async send(_list, steps) {
      sent.push([...steps]);
      return steps;
    },
    committed: () => {},
  });
  expect(await Promise.all(sizes.map((bytes) => commit.run(bytes)))).toEqual(sizes);
  return sent;
}

test("small steps of one turn go together, a fourth of what waits or some few at a time", async () => {
  const batches = await batchesOf(Array.from({ length: 100 }, () => 300));
  expect(batches.map(({ length }) => length)).toEqual([25, 19, 16, 16, 16, 8]);
});

test("large steps go a few MiB at a time", async () => {
  expect(await batchesOf([...Array.from({ length: 9 }, () => MiB), 64 * MiB, 300, 300])).toEqual([
    [MiB, MiB, MiB, MiB],
    [MiB, MiB, MiB, MiB],
    [MiB, 64 * MiB],
    [300, 300],
  ]);
});

test("a step that is much work goes with few others, so that Redis is not held up by one batch", async () => {
  const work = (step: number) => (step === 1 ? 1200 : 1);
  expect(await batchesOf([0, 1, 1, 0, 0], work)).toEqual([[0, 1], [1], [0, 0]]);
});

/** Each of these steps as it ended, where the batch with `bad` in it fails so. */
async function endsOf(steps: readonly string[], fault: Error): Promise<{ ends: string[]; batches: string[][] }> {
  const batches: string[][] = [];
  const commit = createGroupCommit<string, string>({
    write: () => [],
    workOf: () => 1,
    bytesOf: () => 1,
    async send(_list, batch) {
      batches.push([...batch]);
      if (batch.includes("bad")) throw fault;
      return batch.map((step) => `${step} done`);
    },
    committed: () => {},
  });
  const settled = await Promise.allSettled(steps.map((step) => commit.run(step)));
  return { ends: settled.map((one) => (one.status === "fulfilled" ? one.value : String(one.reason))), batches };
}

test("a step that fails does not fail those beside it", async () => {
  const { ends, batches } = await endsOf(["a", "bad", "c"], new Error("WRONGTYPE"));
  expect(ends).toEqual(["a done", "Error: WRONGTYPE", "c done"]);
  expect(batches).toEqual([["a", "bad", "c"], ["a"], ["bad"], ["c"]]);
});

test("while nothing can be stored, no step is tried on its own", async () => {
  const { ends, batches } = await endsOf(["a", "bad", "c"], new StoreUnavailable("down"));
  expect(ends).toEqual(Array.from({ length: 3 }, () => "StoreUnavailable: down"));
  expect(batches).toHaveLength(1);
});

test("while Redis has a batch, steps that come one per turn go together, and none waits once no more are expected", async () => {
  const sent: number[][] = [];
  const answers: (() => void)[] = [];
  let isArriving = true;
  const commit = createGroupCommit<number, number>({
    write: () => [],
    workOf: () => 1,
    bytesOf: () => 1,
    async send(_list, steps) {
      sent.push([...steps]);
      await new Promise<void>((resolve) => answers.push(resolve));
      return steps;
    },
    committed: () => {},
    arriving: () => isArriving,
  });
  const done = [];
  for (let step = 0; step < 6; step += 1) {
    done.push(commit.run(step));
    await nextTurn();
  }
  // Nothing was in flight before the first.
  expect(sent).toEqual([[0]]);
  isArriving = false;
  await nextTurn();
  await nextTurn();
  expect(sent).toEqual([[0], [1, 2, 3, 4, 5]]);
  for (const answer of answers) answer();
  expect(await Promise.all(done)).toEqual([0, 1, 2, 3, 4, 5]);

  isArriving = true;
  const [first, second] = [commit.run(6), nextTurn().then(() => commit.run(7))];
  await nextTurn();
  await nextTurn();
  // An answer sends what waits, whatever else is expected.
  answers[2]?.();
  await first;
  while (sent.length < 4) await nextTurn();
  answers[3]?.();
  await second;
  expect(sent.slice(2)).toEqual([[6], [7]]);
});
