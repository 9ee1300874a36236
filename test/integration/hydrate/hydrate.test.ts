import { expect, test } from "vitest";
import { openRelay } from "./open-relay.ts";

test("nothing tracked: recorded as done with nothing found, and no call made", async () => {
  const relay = await openRelay();
  const stranger = await relay.send({ track: false });
  relay.truncate(1);
  await relay.move(stranger, "sent");
  expect((await relay.truncated())[0]?.hydration).toMatchObject({ state: "waiting", asked: 0, found: [], settledAt: null });
  await relay.pass(5_000);
  const [event] = await relay.truncated();
  expect(event).toMatchObject({ disposition: "forwarded", routes: [{ route: "all", verdict: "deliver" }] });
  expect(event?.hydration).toMatchObject({ state: "done", reason: null, asked: 0, found: [], foundCount: 0, unknown: 0 });
  expect(relay.asked).toEqual([]);
});

test("one tracked: its news goes in by the front door, and is recorded on the event", async () => {
  const relay = await openRelay();
  const message = await relay.send();
  relay.truncate(1);
  await relay.move(message, "delivered");
  await relay.pass(5_000);
  const [event] = await relay.truncated();
  expect(event?.hydration).toMatchObject({ state: "done", asked: 1, foundCount: 1, unknown: 0 });
  const [news] = event?.hydration?.found ?? [];
  expect(news).toMatchObject({ wamid: message.wamid, status: "delivered" });
  const learned = (await relay.get(`/v1/events/${news?.seq}`)).body as { text: string };
  expect(learned).toMatchObject({
    origin: "hydrate",
    status: "delivered",
    previousStatus: null,
    transition: true,
    disposition: "forwarded",
  });
  expect(JSON.parse(learned.text)).toMatchObject({ relay: { origin: "hydrate", messageId: message.id, because: event?.id } });
  expect(relay.asked).toEqual([message.id]);
  expect(relay.downstream.arrivals.map(({ eventId }) => eventId)).toEqual([event?.id, news?.id]);
});
