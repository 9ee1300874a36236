import { expect, test } from "vitest";
import { anEvent, start } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

const { storeOf } = storesOnRedis([{ name: "all" }]);

test("whatever stands in its wamid and status, a delivery is given with what is known of its message", async () => {
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
