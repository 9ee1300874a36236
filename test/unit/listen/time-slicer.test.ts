import { expect, test } from "vitest";
import { createTimeSlicer } from "../../../src/inspect/listening.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

test("pieces go in order; after some milliseconds of work comes a rest in proportion, whoever asks", async () => {
  const clock = createManualClock();
  let time = 0;
  const slice = createTimeSlicer(clock, () => time);
  const done: number[] = [];
  const all = [1, 2, 3, 4].map((n) =>
    slice(() => {
      time += 2;
      done.push(n);
      return n;
    }),
  );
  await settled();
  // Two make a slice of more than three milliseconds, a fifth of the time; the others wait for the
  // rest to be over.
  expect(done).toEqual([1, 2]);
  await clock.advance(15);
  expect(done).toEqual([1, 2]);
  await clock.advance(1);
  expect(done).toEqual([1, 2, 3, 4]);
  expect(await Promise.all(all)).toEqual([1, 2, 3, 4]);
});

test("a piece that fails fails alone, and what takes no time takes no rest", async () => {
  const clock = createManualClock();
  const slice = createTimeSlicer(clock, () => 0);
  const failed = slice(() => {
    throw new Error("this one");
  });
  const fine = slice(() => "fine");
  await expect(failed).rejects.toThrow("this one");
  expect(await fine).toBe("fine");
  await clock.advance(100);
  expect(await slice(() => "later")).toBe("later");
});
