import { expect, onTestFinished, test } from "vitest";
import type { ListenPage } from "../../../src/model/listen.ts";
import type { Wanted } from "../../../src/store/reading.ts";
import { anEvent } from "../../contract/store-events.ts";
import { until } from "../../harness/until.ts";
import { storesOnRedis } from "./store-tools.ts";

const { client, storeOf } = storesOnRedis([]);

const everything: Wanted = { row: () => true, event: null };

test("a listener of one process receives what another process stored", async () => {
  const [receiver, listener] = [storeOf("heard"), storeOf("heard")];
  const heard: string[] = [];
  let through = 0;
  let isWoken = false;
  onTestFinished(
    listener.onStored(() => {
      isWoken = true;
    }),
  );
  for (let round = 1; round <= 3; round += 1) {
    isWoken = false;
    await receiver.accept(anEvent({ id: `round-${round}` }));
    await until("the listener is woken", () => isWoken);
    await until("it is heard", async () => {
      const open = await listener.read.listen.page(through, everything);
      through = open((page) => {
        for (const { id } of page.events) heard.push(id);
        return page.through;
      });
      return heard.length === round;
    });
  }
  expect(heard).toEqual(["round-1", "round-2", "round-3"]);
});

test("a page ends when its bodies are large enough, and the next one continues there", async () => {
  const store = storeOf("large");
  const sizes = [10, 60_000, 10, 70_000, 10, 10];
  for (const size of sizes) await store.accept(anEvent({ data: { text: "x".repeat(size) } }));
  const pages: number[][] = [];
  for (let through = 0; ; ) {
    const open = await store.read.listen.page(through, everything);
    const page = open((one: ListenPage) => {
      pages.push(one.events.map(({ seq, content }) => (content().body.length > 0 ? seq : -1)));
      return one;
    });
    through = page.through;
    if (page.atEnd) break;
  }
  expect(pages).toEqual([
    [1, 2, 3, 4],
    [5, 6],
  ]);
});

test("counts purged events once across pages", async () => {
  const store = storeOf("gaps");
  for (let n = 0; n < 900; n += 1) await store.accept(anEvent());
  const gone = [1, 2, 3, 399, 400, 401, 402, 850];
  for (const seq of gone) {
    await client().del(`{gaps}:e:${seq}`, `{gaps}:b:${seq}`);
    await client().setbit("{gaps}:live:0", seq, 0);
  }
  let missing = 0;
  let heard = 0;
  for (let through = 0; ; ) {
    const open = await store.read.listen.page(through, everything);
    const page = open((one: ListenPage) => one);
    missing += page.missing?.count ?? 0;
    heard += page.events.length;
    through = page.through;
    if (page.atEnd) break;
  }
  expect({ missing, heard }).toEqual({ missing: gone.length, heard: 900 - gone.length });
  expect(await store.read.listen.ends()).toMatchObject({ oldest: 4, newest: 900 });
});
