import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { EventId } from "../../src/model/ids.ts";
import { state } from "../../src/store/schema/tables.ts";
import type { QueuedDelivery } from "../../src/store/work/due.ts";
import { type OneStore, type OpenStore, settlementOf } from "./one-store.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

const rules = rulesFor([{ name: "all" }, { name: "other" }], { unknown: "forward" });

export function oneStoreNotesContract(name: string, open: OpenStore, tags: string[] = []): void {
  describe(`${name}: names of requests, stops and pauses`, { tags }, () => {
    let store: OneStore;
    beforeEach(async () => {
      store = await open(rules);
    });
    afterEach(() => store[Symbol.asyncDispose]());

    const nameAll = (request: string, ids: readonly string[], now: number) =>
      store.send(
        ({ nameRequest }) => nameRequest,
        ids.map((id) => ({ request, id: id as EventId, now, forMs: 600_000 })),
      );
    const resume = async (route: string) => (await store.send((commands) => commands.resume, [route]))[0];
    const endPause = async (now: number) => (await store.send((commands) => commands.endPause, [{ route: "all", now }]))[0];

    test("the same request has one id, until its time is over", async () => {
      expect(await nameAll("digest", ["one", "two", "three"], start)).toEqual(["one", "one", "one"]);
      expect(await nameAll("digest", ["four"], start + 599_999)).toEqual(["one"]);
      expect(await nameAll("another", ["four"], start + 1)).toEqual(["four"]);
      expect(await nameAll("digest", ["five", "six"], start + 600_000)).toEqual(["five", "five"]);
      expect(await store.rows(state)).toMatchObject([{ key: "request/another" }, { key: "request/digest", until: start + 1_200_000 }]);
    });

    test("a name from a clock that was ahead is not used", async () => {
      await nameAll("digest", ["ahead"], start + 10_000_000);
      expect(await nameAll("digest", ["now"], start)).toEqual(["now"]);
    });

    test("a stopped destination stays stopped until it is resumed", async () => {
      await store.accept([anEvent({ wamid: "w" })]);
      const [due] = await store.due("all", start);
      await store.settle([settlementOf(due as QueuedDelivery, "waiting", start, { stop: "the destination answered 410 (gone)" })]);
      expect(await store.rows(state)).toMatchObject([{ key: "stop/all" }]);
      expect(await resume("other")).toBe(false);
      expect(await resume("all")).toBe(true);
      expect(await resume("all")).toBe(false);
    });

    test("the longest pause counts, unless the settings of the breaker changed", async () => {
      await store.accept(Array.from({ length: 3 }, () => anEvent()));
      const pauseFor = async (breaker: string, ms: number) => {
        const [due] = await store.due("all", start);
        await store.settle([settlementOf(due as QueuedDelivery, "waiting", start, { pause: { breaker, until: start + ms } })]);
        return (await store.rows(state)).map(({ value, until }) => [JSON.parse(value), until]);
      };
      expect(await pauseFor("one", 60_000)).toEqual([[{ breaker: "one", until: start + 60_000 }, start + 60_000]]);
      expect(await pauseFor("one", 5_000)).toEqual([[{ breaker: "one", until: start + 60_000 }, start + 60_000]]);
      expect(await pauseFor("two", 5_000)).toEqual([[{ breaker: "two", until: start + 5_000 }, start + 5_000]]);
      expect(await endPause(start)).toBe(true);
      expect(await endPause(start)).toBe(false);
      await store.accept([anEvent()]);
      await pauseFor("two", 5_000);
      expect(await endPause(start + 5_000)).toBe(false);
    });
  });
}
