import { expect, test } from "vitest";
import { arrived, openRelay, paths } from "./open-relay.ts";

const registrationOf = (wamid: string) => ({ account: "main", wamid, reference: `order of ${wamid}` });
const minute = 60_000;

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
