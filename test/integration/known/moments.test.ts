import { expect, test } from "vitest";
import { rowsOf } from "../../harness/store-rows.ts";
import { arrived, openRelay, paths } from "./open-relay.ts";

const registrationOf = (wamid: string) => ({ account: "main", wamid, reference: `order of ${wamid}` });
const minute = 60_000;

test("registered 1 ms before its first event: parks nothing, and delivers at once", async () => {
  const relay = await openRelay();
  const wamid = relay.wamid();
  expect(await relay.track(registrationOf(wamid))).toEqual({ created: 1, known: 0 });
  await relay.clock.advance(1);
  const sent = relay.event(wamid, "sent");
  await relay.post(sent);
  for (const path of [paths.all, paths.events, paths.transitions]) await arrived(relay, path, wamid, [sent]);
  expect(await relay.seen(sent)).toMatchObject({ disposition: "routed", parkedUntil: null });
});

test.each([
  ["1 ms", 1],
  ["30 s", 30_000],
  ["one millisecond less than parkFor", minute - 1],
])("registered %s after its events: routes for tracked messages deliver them in order", async (_, late) => {
  const relay = await openRelay();
  // The relay looks for what is over twice a second from its start on: so one look falls on the last moment of parkFor.
  await relay.clock.advance(1);
  const wamid = relay.wamid();
  // `delivered` comes after `read`: an event like any other, and no transition.
  const [sent, read, delivered] = (["sent", "read", "delivered"] as const).map((status) => relay.event(wamid, status));
  const all = [sent, read, delivered].filter((event) => event !== undefined);
  for (const event of all) expect(await relay.post(event)).toBe("accepted");
  await arrived(relay, paths.all, wamid, all);
  await relay.clock.advance(late);

  expect(await relay.track({ account: "main", wamid: "somebody.else" })).toEqual({ created: 1, known: 0 });
  expect(relay.arrivals(paths.events, wamid)).toEqual([]);
  expect(relay.arrivals(paths.transitions, wamid)).toEqual([]);
  for (const event of all) expect((await relay.seen(event)).parkedUntil).not.toBeNull();

  expect(await relay.track(registrationOf(wamid))).toEqual({ created: 1, known: 0 });
  await arrived(relay, paths.events, wamid, all);
  const moves = all.slice(0, 2);
  await arrived(relay, paths.transitions, wamid, moves);
  const relayParts = relay.arrivals(paths.transitions, wamid).map(({ body }) => JSON.parse(String(body)).relay.message);
  expect(relayParts).toEqual([
    { tracked: true, id: null, reference: `order of ${wamid}`, metadata: null, previousStatus: null, transition: true },
    { tracked: true, id: null, reference: `order of ${wamid}`, metadata: null, previousStatus: "sent", transition: true },
  ]);

  // Told again, nothing goes again; the next event finds nothing in its way.
  expect(await relay.track(registrationOf(wamid))).toEqual({ created: 0, known: 1 });
  const failed = relay.event(wamid, "failed");
  await relay.post(failed);
  await arrived(relay, paths.events, wamid, [...all, failed]);
  await relay.clock.advance(2 * minute);
  await arrived(relay, paths.all, wamid, [...all, failed]);
  await arrived(relay, paths.transitions, wamid, moves);
  for (const event of [...all, failed]) expect(await relay.seen(event)).toMatchObject({ disposition: "routed", parkedUntil: null });
});

test("registered 5 minutes after its event: the event stays ignored, and tracking starts from its status", async () => {
  const relay = await openRelay({ routes: ["events", "transitions"] });
  const wamid = relay.wamid();
  const [sent, delivered] = [relay.event(wamid, "sent"), relay.event(wamid, "delivered")];
  await relay.post(sent);
  await relay.post(delivered);
  expect(await relay.seen(delivered)).toMatchObject({
    disposition: "parked",
    routes: [
      { route: "events", verdict: "park" },
      { route: "transitions", verdict: "park" },
    ],
  });
  await relay.clock.advance(5 * minute);
  for (const event of [sent, delivered]) {
    expect(await relay.seen(event)).toMatchObject({
      disposition: "ignored",
      parkedUntil: null,
      routes: [
        { route: "events", verdict: "skip", reason: "untracked" },
        { route: "transitions", verdict: "skip", reason: "untracked" },
      ],
    });
  }

  expect(await relay.track(registrationOf(wamid))).toEqual({ created: 1, known: 0 });
  expect(rowsOf(relay.storePath, "SELECT status FROM subjects")).toEqual([{ status: "delivered" }]);
  // Late, and lower than what is known: an event to forward, and no transition.
  const [again, read] = [relay.event(wamid, "sent"), relay.event(wamid, "read")];
  await relay.post(again);
  await relay.post(read);
  await arrived(relay, paths.events, wamid, [again, read]);
  await arrived(relay, paths.transitions, wamid, [read]);
  expect(JSON.parse(String(relay.arrivals(paths.transitions, wamid)[0]?.body)).relay.message).toMatchObject({
    previousStatus: "delivered",
  });
});

test("restarted while events are parked: registration releases them in order", async () => {
  const relay = await openRelay();
  const wamid = relay.wamid();
  const events = (["sent", "delivered", "read"] as const).map((status) => relay.event(wamid, status));
  for (const event of events.slice(0, 2)) await relay.post(event);
  await arrived(relay, paths.all, wamid, events.slice(0, 2));
  await relay.restart(20_000);
  for (const event of events.slice(2)) await relay.post(event);
  await relay.restart(20_000);
  await relay.clock.advance(10_000);
  await arrived(relay, paths.all, wamid, events);
  expect(relay.arrivals(paths.events, wamid)).toEqual([]);

  await relay.track(registrationOf(wamid));
  await arrived(relay, paths.events, wamid, events);
  await arrived(relay, paths.transitions, wamid, events);
});

test("parkFor ended while the relay was down: ignores those events after the start, and keeps newer ones parked", async () => {
  const relay = await openRelay({ routes: ["events"] });
  const [early, late] = [relay.wamid(), relay.wamid()];
  const lost = relay.event(early, "sent");
  await relay.post(lost);
  await relay.clock.advance(50_000);
  const kept = relay.event(late, "sent");
  await relay.post(kept);
  await relay.restart(20_000);
  await relay.clock.advance(1_000);
  expect(await relay.seen(lost)).toMatchObject({ disposition: "ignored", parkedUntil: null, routes: [{ reason: "untracked" }] });
  expect(await relay.seen(kept)).toMatchObject({ disposition: "parked" });

  await relay.track(registrationOf(early), registrationOf(late));
  await arrived(relay, paths.events, late, [kept]);
  const next = relay.event(early, "delivered");
  await relay.post(next);
  await arrived(relay, paths.events, early, [next]);
});
