import type { Redis as Client } from "ioredis";
import { describe, expect, test } from "vitest";
import { redisOfFile } from "./redis-of-file.ts";
import { type OpenedStore, openRedisStore } from "./redis-queue.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

const day = 86_400_000;
const keep = { events: 30 * day, ignored: day, deliveries: 30 * day, messages: 180 * day, history: 400 * day };
const rules = rulesFor([{ name: "ours", match: { tracked: true } }]);
const message = { account: "main", wamid: "w" };
const { client, link } = redisOfFile();
let made = 0;

interface Pair {
  /** What this one does is interrupted. */
  readonly one: OpenedStore;
  readonly other: OpenedStore;
  /** Only accepts what is about messages. */
  readonly receiver: OpenedStore;
  readonly key: (name: string) => string;
}

type Act = (pair: Pair) => Promise<unknown>;

/** `first` done by one process, and `second` by another after each of the commands that it takes: a world of its own each time. */
async function interleaved(before: Act, first: Act, second: Act, check: Act): Promise<void> {
  for (let at = 0, commands = 1; at < commands; at++) {
    made += 1;
    const prefix = `interleaved-${made}`;
    const other = openRedisStore(link, prefix, rules, { committed: () => {} });
    const receiver = openRedisStore(link, prefix, rules, { committed: () => {} }, true);
    let count: number | null = null;
    const run = async <T>(command: (redis: Client) => Promise<T>): Promise<T> => {
      const result = await link.run(command);
      if (count !== null && count++ === at) await second(pair);
      return result;
    };
    const one = openRedisStore({ run }, prefix, rules, { committed: () => {} });
    const pair: Pair = { one, other, receiver, key: (name) => `{${prefix}}:${name}` };
    await before(pair);
    count = 0;
    await first(pair);
    commands = count;
    await check(pair);
    count = null;
    await Promise.all([one.close(), other.close(), receiver.close()]);
  }
}

async function purgeAll(store: OpenedStore, now: number): Promise<void> {
  for (let steps = 0; !(await store.purge(now, keep, 10)).done; steps++) if (steps > 100) throw new Error("no end");
}

/** Two events about the message, their time is up, and one after them. */
const parked: Act = async ({ other }) => {
  for (let n = 0; n < 2; n++) await other.accept(anEvent({ ...message, id: `parked ${n}` }));
  await other.accept(anEvent({ event: "contact.created", receivedAt: start + 400 * day }));
};

const ignored: Act = async (pair) => {
  await parked(pair);
  await pair.other.expireParked(start + day, 10);
};

/** Each event is there whole, with what its verdict says, or not at all. */
const whole: Act = async ({ other, key }) => {
  for (const seq of [1, 2]) {
    const event = await other.read.events.get(seq);
    const verdict = event?.verdicts[0]?.[1];
    expect(await client().exists(key(`d:${seq}:ours`))).toBe(verdict === "deliver" ? 1 : 0);
    expect((await client().zscore(key("pk:m:main:w"), String(seq))) !== null).toBe(verdict === "park");
    expect((await client().zscore(key("ignored"), String(seq))) !== null).toBe(verdict === "skip");
    expect((await client().zscore(key("es:m:main:w"), String(seq))) !== null).toBe(event !== null);
    if (event !== null) expect(await other.messageState("main", "w")).not.toBeNull();
  }
  const due = await other.due("ours", start + 500 * day, 10);
  const held = await client().zcard(key("held:ours"));
  // In order: the second goes out first only when the first is not owed.
  if (held > 0) expect(due).toEqual([1]);
};

describe("one process between any two commands of another", () => {
  const register: Act = ({ other }) => other.register([message], start + day);
  const expire: Act = ({ other }) => other.expireParked(start + day, 10);
  const pass =
    (now: number): Act =>
    ({ other }) =>
      purgeAll(other, now);
  const acceptAgain: Act = ({ other }) => other.accept(anEvent({ ...message, id: "parked 0" }));
  const acceptMore: Act = ({ other }) => other.accept(anEvent({ ...message, status: "odd", receivedAt: start + day }));
  const backfill: Act = async (pair) => {
    await register(pair);
    await pair.other.backfill([1, 2], { disposition: "ignored" }, start + day);
  };

  test("registering during expiry, acceptance and purge", async () => {
    const first: Act = ({ one }) => one.register([message], start + day);
    for (const second of [expire, acceptMore, register, pass(start + 400 * day)]) {
      await interleaved(parked, first, second, async (pair) => {
        await whole(pair);
        expect(await client().zcard(pair.key("pk:m:main:w"))).toBe(0);
      });
    }
  });

  test("expiring during registration, expiry, acceptance and purge", async () => {
    const first: Act = ({ one }) => one.expireParked(start + day, 10);
    for (const second of [register, expire, acceptMore, pass(start + 400 * day)]) await interleaved(parked, first, second, whole);
  });

  test("purging during backfill, registration, acceptance and purge", async () => {
    const first: Act = ({ one }) => purgeAll(one, start + 400 * day);
    for (const second of [backfill, register, acceptAgain, acceptMore, pass(start + 400 * day)]) {
      await interleaved(ignored, first, second, whole);
    }
  });

  test("backfilling during purge, backfill and registration", async () => {
    const first: Act = ({ one }) => one.backfill([1, 2], { disposition: "ignored" }, start + day);
    const before: Act = async (pair) => {
      await ignored(pair);
      await register(pair);
    };
    for (const second of [pass(start + 400 * day), backfill]) await interleaved(before, first, second, whole);
  });

  /** Two events about the message, only accepted. */
  const waiting: Act = async ({ receiver }) => {
    for (let n = 0; n < 2; n++) await receiver.accept(anEvent({ ...message, id: `waiting ${n}` }));
  };
  const plan = async (store: OpenedStore): Promise<unknown> => {
    while ((await store.planning.next()) !== null) await store.planning.planSome(start);
    return null;
  };
  /** Whatever came between: both are planned, once, and in order. */
  const planned: Act = async (pair) => {
    await plan(pair.other);
    await whole(pair);
    for (const seq of [1, 2]) expect((await pair.other.read.events.get(seq))?.disposition).not.toBe("accepted");
    expect(await client().exists(pair.key("unplanned"))).toBe(0);
    const report = await pair.other.inspecting.audit({ now: start, isRunning: true, mostOffenders: 10 }, () => {});
    expect(report, JSON.stringify(report.offenders)).toMatchObject({ balanced: true });
  };

  test("planning during registration, expiry, acceptance and planning", async () => {
    const first: Act = ({ one }) => plan(one);
    const acceptWaiting: Act = ({ receiver }) => receiver.accept(anEvent({ ...message, status: "odd" }));
    for (const second of [expire, acceptMore, acceptWaiting, ({ other }: Pair) => plan(other)]) {
      await interleaved(waiting, first, second, planned);
    }
    await interleaved(waiting, first, register, async (pair) => {
      await planned(pair);
      expect(await client().zcard(pair.key("pk:m:main:w"))).toBe(0);
      expect(await pair.other.due("ours", start + day, 10)).toEqual([1]);
    });
  });

  test("registration, acceptance and expiry during planning", async () => {
    const before: Act = async (pair) => {
      await pair.other.accept(anEvent({ ...message, id: "waiting 0" }));
      await pair.receiver.accept(anEvent({ ...message, id: "waiting 1" }));
    };
    const firsts: Act[] = [
      ({ one }) => one.register([message], start + day),
      ({ one }) => one.expireParked(start + day, 10),
      ({ one }) => one.accept(anEvent({ ...message, status: "read" })),
    ];
    for (const first of firsts) await interleaved(before, first, ({ other }) => plan(other), planned);
  });
});
