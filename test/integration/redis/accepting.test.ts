import { expect, test } from "vitest";
import { anEvent, start } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

const { client, storeOf } = storesOnRedis([{ name: "a" }, { name: "tracked", match: { tracked: true } }]);

/** How often Redis was asked for a command. */
async function calls(command: string): Promise<number> {
  const stats = await client().info("commandstats");
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

test("reads all unknown subjects of a batch at once, without a second try", async () => {
  const wamids = Array.from({ length: 12 }, (_, n) => `w${n}`);
  await storeOf("looked").register(
    wamids.map((wamid) => ({ account: "main", wamid })),
    start,
  );
  const store = storeOf("looked");
  // The script is known to the server from here on.
  await store.accept(anEvent());
  await client().config("RESETSTAT");
  const events = wamids.map((wamid) => anEvent({ wamid }));
  const outcomes = await Promise.all(events.map((event) => store.accept(event)));
  expect(outcomes.map(({ result }) => result)).toEqual(wamids.map(() => "accepted"));
  // One look is this process's, the other the script's.
  expect([await calls("mget"), await calls("evalsha")]).toEqual([2, 1]);
  // What it has seen by now it need not look for.
  await Promise.all(wamids.map((wamid) => store.accept(anEvent({ wamid, status: "read" }))));
  expect([await calls("mget"), await calls("evalsha")]).toEqual([3, 2]);
  expect((await store.read.messages.find("w7")).map(({ status }) => status)).toEqual(["read"]);
});

const bodies: readonly [string, Buffer][] = [
  ["text", Buffer.from('{"text":"ß 🙂 \\n"}')],
  ["lines", Buffer.from("{\n}\n")],
  ["no text", Buffer.from([0x7b, 0xff, 0x00, 0x0a, 0x7d])],
  ["few", Buffer.from("x".repeat(1024))],
  ["many", Buffer.from("x".repeat(1025))],
  ["none", Buffer.alloc(0)],
];
test.each(bodies)("stores bodies byte for byte, and compares duplicates with them: %s", async (name, body) => {
  const store = storeOf(`bytes ${name}`);
  const event = { ...anEvent({ id: "one" }), body };
  expect(await store.accept(event)).toMatchObject({ result: "accepted", seq: 1 });
  expect(await store.accept(event)).toMatchObject({ result: "duplicate", conflict: false });
  const other = Buffer.concat([body, Buffer.from(" ")]);
  expect(await store.accept({ ...event, body: other })).toMatchObject({ result: "duplicate", conflict: true });
  expect((await store.read.events.get(1))?.body).toEqual(body);
  const quarantined = await store.quarantine({ ...event, error: "for the test" });
  expect((await store.read.events.get(quarantined))?.body).toEqual(body);
});

test("marks all events of a batch that spans two bitmaps", async () => {
  const store = storeOf("live");
  await client().set("{live}:seq", "65500");
  await Promise.all(Array.from({ length: 100 }, () => store.accept(anEvent())));
  expect(await client().bitcount("{live}:live:0")).toBe(65_535 - 65_500);
  expect(await client().bitcount("{live}:live:1")).toBe(100 - 35);
  expect(await client().getbit("{live}:live:0", 65_500)).toBe(0);
  expect(await client().getbit("{live}:live:1", 64)).toBe(1);
  expect(await client().getbit("{live}:live:1", 65)).toBe(0);
});

test("accepts many concurrent events of one message, each of which changes it", async () => {
  const store = storeOf("one");
  // A route wants them tracked: each is parked, and whoever registers the message must see that one more is.
  const events = Array.from({ length: 200 }, () => anEvent({ wamid: "w" }));
  const outcomes = await Promise.all(events.map((event) => store.accept(event)));
  expect(new Set(outcomes.map(({ result }) => result))).toEqual(new Set(["accepted"]));
  expect(await client().zcard("{one}:pk:m:main:w")).toBe(200);
});

test("counts secret usage with its first and last time, whatever the result", async () => {
  const store = storeOf("secretUses");
  const event = anEvent({ receivedAt: start + 5, secret: "first" });
  await Promise.all([
    store.accept(event),
    store.accept({ ...event, receivedAt: start + 9 }),
    store.accept(anEvent({ receivedAt: start + 7, secret: "first" })),
    store.accept(anEvent({ receivedAt: start + 1, secret: "second" })),
    store.accept(anEvent({ receivedAt: start, secret: null })),
  ]);
  const secretUses = (await store.read.secretUses()).map(({ secret, events, duplicates, firstAt, lastAt }) => [
    secret,
    events,
    duplicates,
    firstAt,
    lastAt,
  ]);
  expect(secretUses.sort()).toEqual([
    ["first", 2, 1, start + 5, start + 9],
    ["second", 1, 0, start + 1, start + 1],
  ]);
});
