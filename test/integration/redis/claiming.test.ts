import { expect, test } from "vitest";
import type { Settlement } from "../../../src/model/delivery.ts";
import type { EventId } from "../../../src/model/ids.ts";
import { anEvent, start } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

const { storeOf } = storesOnRedis([{ name: "all" }]);

test("claims a delivery with its message's facts, whatever characters the wamid and status have", async () => {
  const store = storeOf("any");
  const wamids = ["plain", '"', "\\", '\\"', '"\\', "\\\\", '["m:main:', "\u0000\n\t", "ß🙂\u2028", '\\u0022"'];
  // What `subjectOf` keeps of a status that is too long: it ends in half of a character.
  const status = `${"x".repeat(255)}🙂`.slice(0, 256);
  await store.registerEach(
    wamids.map((wamid, n) => ({ account: "main", wamid, reference: `r${n}` })),
    start,
  );
  for (const wamid of wamids) await store.accept(anEvent({ wamid, status }));
  await store.accept(anEvent());
  const claim = { now: start, limit: 100, maxBytes: 1e6, leaseMs: 1000, holder: "h" };
  const { deliveries } = await store.claim("all", claim);
  expect(deliveries.map(({ subject }) => subject && [subject.key, subject.reference])).toEqual([
    ...wamids.map((wamid, n) => [wamid, `r${n}`]),
    null,
  ]);
});

test("the result of an event that Redis lost does not settle the event that has its seq now", async () => {
  const store = storeOf("lost");
  // Its body has the other's id in it, after all that the store itself writes of it.
  const { seq } = await store.accept(anEvent({ id: 'kept "1"', data: { about: 'lost "1"' } }));
  const ends: Pick<Settlement, "settled" | "stop">[] = [
    { settled: { to: "delivered" } },
    { settled: { to: "waiting", nextAt: start } },
    { settled: { to: "dead", reason: "gone" } },
  ];
  const settle = (id: string, end: (typeof ends)[number]) => {
    const attempt = { number: 1, at: start, tookMs: 1, result: { kind: "taken" }, response: null } as const;
    return store.settle({ route: "all", event: seq, eventId: id as EventId, attempt, at: start, ...end }, "h", true);
  };
  for (const end of ends) expect(await settle('lost "1"', end)).toMatchObject({ written: false });
  expect(await store.due("all", start, 10)).toEqual([seq]);
  expect(await settle('kept "1"', { settled: { to: "delivered" } })).toMatchObject({ written: true });
  expect(await store.due("all", start, 10)).toEqual([]);
});
