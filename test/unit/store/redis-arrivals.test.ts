import { expect, test } from "vitest";
import { createArrivals } from "../../../src/store/redis/notes.ts";

import { settled } from "../../harness/manual-clock.ts";
import { until } from "../../harness/until.ts";

/** A Redis whose last seq is told, and the looks at it that are due. */
function parts() {
  const at = { last: 0, asked: 0, isDown: false };
  const due: (() => void)[] = [];
  const news = createArrivals(
    () => {
      at.asked += 1;
      return at.isDown ? Promise.reject(new Error("down")) : Promise.resolve(at.last);
    },
    (_, run) => {
      due.push(run);
      return () => void due.splice(due.indexOf(run), 1);
    },
  );
  const look = async (): Promise<void> => {
    await until("the next look is due", () => due.length === 1);
    due.shift()?.();
    await until("the next look is due", () => due.length === 1);
  };
  return { at, due, news, look };
}

test("who listens is woken for what other processes store", async () => {
  const { at, news, look } = parts();
  let woken = 0;
  const leave = news.onStored(() => {
    woken += 1;
  });
  await look();
  expect(woken).toBe(0);
  at.last = 5;
  await look();
  await until("somebody is woken", () => woken === 1);
  await look();
  expect(woken).toBe(1);
  leave();
  news.close();
});

test("what this process stores wakes at once, and once for all of a turn", async () => {
  const { news, due } = parts();
  let woken = 0;
  news.onStored(() => {
    woken += 1;
  });
  for (let seq = 1; seq <= 10; seq += 1) news.stored(seq);
  await until("somebody is woken", () => woken === 1);
  news.close();
  expect(due).toHaveLength(0);
});

test("nothing is asked while nobody listens, and again when somebody does", async () => {
  const { at, news, look, due } = parts();
  expect(at.asked).toBe(0);
  const leave = news.onStored(() => {});
  await look();
  leave();
  due.shift()?.();
  const { asked } = at;
  await settled();
  expect(at.asked).toBe(asked);
  expect(due).toHaveLength(0);
  let woken = 0;
  at.last = 3;
  news.onStored(() => {
    woken += 1;
  });
  await until("somebody is woken", () => woken === 1);
  news.close();
});

test("looking goes on over a Redis that is away", async () => {
  const { at, news, look } = parts();
  let woken = 0;
  news.onStored(() => {
    woken += 1;
  });
  at.isDown = true;
  await look();
  await look();
  at.isDown = false;
  at.last = 9;
  await look();
  await until("somebody is woken", () => woken === 1);
  news.close();
});
