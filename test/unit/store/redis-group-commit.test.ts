import { expect, test } from "vitest";
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
