import { expect, test } from "vitest";
import { minute, openRelay } from "./open-relay.ts";

test("leaves the calls of the month that sends need, and continues after a restart with more", async () => {
  // A share of 15 calls a month, of which a tenth and the fraction are kept for sends.
  const relay = await openRelay({ account: { share: 0.00005 } });
  const messages = [];
  for (let n = 0; n < 30; n += 1)
    messages.push(await relay.send({ to: `+5491155${String(n).padStart(2, "0")}0002` }));
  relay.truncate(1);
  await relay.move(messages[0] as (typeof messages)[number], "sent");
  await relay.pass(40 * minute, 5_000);
  // Up to eight are under way at once when the last one is allowed.
  expect(relay.polled.length).toBeGreaterThanOrEqual(13);
  expect(relay.polled.length).toBeLessThanOrEqual(20);
  expect((await relay.truncated())[0]?.hydration?.state).toBe("waiting");

  await relay.restart({
    accounts: { main: { baseUrl: relay.sandbox.url, apiKey: relay.sandbox.key, share: 0.1 } },
  });
  await relay.pass(15 * minute, 5_000);
  // None twice: the pass did not start again.
  expect([relay.polled.length, new Set(relay.polled).size]).toEqual([30, 30]);
  expect((await relay.truncated())[0]?.hydration).toMatchObject({ state: "done", polled: 30 });
  expect(await relay.status(messages[0] as (typeof messages)[number])).toBe("sent");
});
