import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createManualClock } from "../../harness/manual-clock.ts";
import { until } from "../../harness/until.ts";
import { startHttp } from "../../integration/url-destination/downstream.ts";
import { arrival } from "./arrival.ts";
import { createSharedStore } from "./shared-observations.ts";
import { afterMs, createWatcher } from "./watcher.ts";

/** A store whose answers its process does not live to see: none comes once `isDead`. */
function mortal(store: object, isDead: (call: string) => boolean): object {
  const never = new Promise<never>(() => {});
  return new Proxy(store, {
    get(target, name: string) {
      const value = target[name as never] as unknown;
      if (typeof value !== "function") return value;
      return async (...given: unknown[]) => {
        if (isDead("")) return never;
        const answer = await value.apply(target, given);
        return isDead(name) ? never : answer;
      };
    },
  });
}

/** Two processes that watch, one after the other, and the URL to which they post. */
async function open() {
  const posted: { readonly state: string; readonly since: string }[] = [];
  const unanswered: ServerResponse[] = [];
  let answer: () => number | null = () => 200;
  const { url: alertUrl, seen } = await startHttp((_request, response) => {
    const status = answer();
    posted.push(JSON.parse(String(seen.at(-1)?.body)));
    if (status === null) unanswered.push(response);
    else response.writeHead(status).end();
  });
  const settings = { accounts: { main: {} }, silence: { alertUrl } };

  const clock = createManualClock();
  const shared = createSharedStore(clock);
  let whereItDies: string | null = null;
  let isDead = false;
  const process = (store: object) => createWatcher({ store, clock, settings, level: "silent" });
  return {
    clock,
    shared,
    posted,
    unanswered,
    states: () => posted.map(({ state }) => state),
    first: process(
      mortal(shared.of("first"), (call) => {
        if (call === whereItDies) isDead = true;
        return isDead;
      }),
    ),
    second: process(shared.of("second")),
    /** The first one ends as it has noted the next change, before it posts. */
    diesAsItNotes(): void {
      whereItDies = "keepAlarm";
    },
    /** The first one ends while the next post of its is under way. */
    diesAsItPosts(): void {
      answer = () => {
        isDead = true;
        answer = () => 200;
        return null;
      };
    },
    answers(next: () => number | null): void {
      answer = next;
    },
  };
}

const moments = ["diesAsItNotes", "diesAsItPosts"] as const;

test.each(moments)(
  "the one that watches dies before it has told that an alarm began (%s): whoever goes on tells it",
  async (dies) => {
    const stage = await open();
    const { clock, shared, first, second } = stage;
    first.start();
    second.start();
    for (let n = 0; n < 5; n++) first.registered("main", undefined);
    await clock.advance(afterMs - 1_000);
    expect(stage.states()).toEqual([]);
    stage[dies]();
    await clock.advance(30_000);
    if (dies === "diesAsItPosts")
      await until("it is posted, and no answer comes", () => stage.posted.length === 1);
    expect(shared.untold()).toHaveLength(1);

    await clock.advance(60_000);
    const expected = dies === "diesAsItPosts" ? ["began", "began"] : ["began"];
    await until(
      "the other has told it",
      () => stage.posted.length === expected.length && shared.untold().length === 0,
    );
    expect(new Set(stage.posted.map(({ since }) => since)).size).toBe(1);
    expect(second.alarms()).toMatchObject([{ alarm: "silence", account: "main" }]);
    await clock.advance(4 * afterMs);
    await second.close();
    expect(stage.states()).toEqual(expected);
  },
);

test.each(moments)("the same of its end (%s)", async (dies) => {
  const stage = await open();
  const { clock, shared, first, second } = stage;
  first.start();
  second.start();
  for (let n = 0; n < 5; n++) first.registered("main", undefined);
  await clock.advance(afterMs + 30_000);
  await until(
    "its beginning is told",
    () => stage.posted.length === 1 && shared.untold().length === 0,
  );
  stage[dies]();
  second.arrived(arrival("w", "sent"));
  await clock.advance(45_000);
  if (dies === "diesAsItPosts")
    await until("it is posted, and no answer comes", () => stage.posted.length === 2);
  expect(shared.untold()).toHaveLength(1);

  await clock.advance(60_000);
  const expected = ["began", ...(dies === "diesAsItPosts" ? ["ended", "ended"] : ["ended"])];
  await until(
    "the other has told it",
    () => stage.posted.length === expected.length && shared.untold().length === 0,
  );
  expect(second.alarms()).toEqual([]);
  await clock.advance(4 * afterMs);
  await second.close();
  expect(stage.states()).toEqual(expected);
});

test("a post that is refused, while its process is being stopped, was made, and so was one before the store went away: neither is made again", async () => {
  const stage = await open();
  const { clock, shared, first, second } = stage;
  stage.answers(() => null);
  first.start();
  second.start();
  for (let n = 0; n < 5; n++) first.registered("main", undefined);
  await clock.advance(afterMs + 30_000);
  await until("it is posted", () => stage.posted.length === 1);
  const stopped = first.close();
  expect(shared.untold()).toHaveLength(1);
  stage.unanswered[0]?.writeHead(500).end();
  await stopped;
  expect(shared.untold()).toEqual([]);
  await clock.advance(60_000);
  expect(second.alarms()).toHaveLength(1);

  stage.answers(() => {
    shared.away(true);
    return 200;
  });
  second.arrived(arrival("w", "sent"));
  await clock.advance(30_000);
  await until("its end is posted", () => stage.posted.length === 2);
  await clock.advance(30_000);
  expect(shared.untold()).toHaveLength(1);
  shared.away(false);
  await clock.advance(30_000);
  // The answer to the post may come as late as now.
  await until("it is marked as told", () => shared.untold().length === 0);
  await second.close();
  expect(stage.states()).toEqual(["began", "ended"]);
});
