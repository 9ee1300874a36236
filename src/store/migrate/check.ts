import { setImmediate as nextTurn } from "node:timers/promises";
import type { Stats } from "../reading.ts";
import type { RedisLink } from "../redis/client.ts";
import { createStoredEvents } from "../redis/event-rows.ts";
import { type Keys, keysOf } from "../redis/keys.ts";
import { createLiveSeqs, type LiveSeqs } from "../redis/live-seqs.ts";
import { createCountStats, createReadUsage } from "../redis/read-stats.ts";

import { countStats } from "../sqlite/read-stats.ts";

import type { Source } from "./source.ts";

/** How many there are of a kind, in the file and in Redis. */
export interface KindCount {
  readonly kind: string;
  readonly file: number;
  readonly redis: number;
}

interface CheckParts {
  readonly source: Source;
  readonly link: RedisLink;
  readonly prefix: string;
  /** The last seq counted in Redis, which takes longest. */
  readonly progress: (seq: number) => void;
}

/** Keys or rows per step. */
const atOnce = 500;

/** Counts the rows of both sides, a slice at a time. */
export async function countBoth({ source, link, prefix, progress }: CheckParts): Promise<KindCount[]> {
  const keys = keysOf(prefix);
  const { db } = source;
  const count = (sql: string): number => db.prepare<[], number>(`SELECT count(*) FROM ${sql}`).pluck().get() ?? 0;
  const subjects = createCountSubjects(keys, link);
  const file = await statsOf(source);
  const live = watched(createLiveSeqs(keys, link), progress);
  const redis = await createCountStats({ keys, link, live, events: createStoredEvents(keys, link) })();
  const [told, accounts] = [await createReadUsage(keys, link)(), accountsOf(source)];
  const ofAccounts = async (of: (account: string) => Promise<number>): Promise<number> =>
    (await Promise.all(accounts.map(of))).reduce((sum, one) => sum + one, 0);

  return [
    ...statsCounts(file, redis),
    { kind: "events parked until a time", file: count("events WHERE parked_until IS NOT NULL"), redis: await zcard(keys, link, "parked") },
    { kind: "messages and runs to release events of", file: count("releases"), redis: await zcard(keys, link, "releasing") },
    {
      kind: "messages registered",
      file: count("messages WHERE registered_at IS NOT NULL"),
      redis: await subjects("registered:m"),
    },
    { kind: "messages seen", file: count("messages WHERE registered_at IS NULL"), redis: await subjects("seen:m") },
    { kind: "runs registered", file: count("runs WHERE registered_at IS NOT NULL"), redis: await subjects("registered:r") },
    { kind: "runs seen", file: count("runs WHERE registered_at IS NULL"), redis: await subjects("seen:r") },
    {
      kind: "messages to ask about",
      file: count("asks"),
      redis: await ofAccounts((name) => link.run((redis) => redis.hlen(keys.of(`poll:${name}`)))),
    },
    { kind: "truncated events", file: count("hydrations"), redis: await countNamed(link, hydrationKeys(source, keys)) },
    {
      kind: "truncated events that wait",
      file: count("hydrations WHERE state = 0"),
      redis: await ofAccounts(async (name) => (await zcard(keys, link, `hw:${name}`)) + (await zcard(keys, link, `hc:${name}`))),
    },
    { kind: "keys of sends", file: count("sends"), redis: await countNamed(link, sendKeys(source, keys)) },
    { kind: "stopped destinations", file: count("stopped"), redis: await link.run((redis) => redis.hlen(keys.of("stopped"))) },
    { kind: "listeners' cursors", file: count("cursors"), redis: await zcard(keys, link, "cursors") },
    {
      kind: "events proved by secrets",
      file: db.prepare<[], number | null>("SELECT sum(events) FROM secret_uses").pluck().get() ?? 0,
      redis: told.reduce((sum, { events }) => sum + events, 0),
    },
    {
      kind: "calls to the service",
      file: db.prepare<[], number | null>("SELECT sum(polls + others) FROM service_calls").pluck().get() ?? 0,
      redis: await ofAccounts(async (name) => {
        const calls = await link.run((redis) => redis.hvals(keys.of(`calls:${name}`)));
        return calls.reduce((sum, one) => sum + Number(one), 0);
      }),
    },
  ];
}

function watched(live: LiveSeqs, progress: CheckParts["progress"]): LiveSeqs {
  return {
    ...live,
    async *forth(after, before, size) {
      for await (const seqs of live.forth(after, before, size)) {
        yield seqs;
        progress(seqs.at(-1) ?? after);
      }
    },
  };
}

const zcard = (keys: Keys, link: RedisLink, list: string): Promise<number> => link.run((redis) => redis.zcard(keys.of(list)));

function accountsOf({ db }: Source): string[] {
  return db.prepare<[], string>("SELECT name FROM names WHERE kind = 'account'").pluck().all();
}

async function statsOf({ db }: Source): Promise<Stats> {
  const counting = countStats(db);
  for (;;) {
    const { done, value } = counting.next();
    if (done === true) return value;
    await nextTurn();
  }
}

function statsCounts(file: Stats, redis: Stats): KindCount[] {
  const words = (of: "dispositions" | "deliveries", kind: string): KindCount[] =>
    Object.entries<number>(file[of]).map(([word, n]) => ({
      kind: `${kind} ${word}`,
      file: n,
      redis: (redis[of] as Readonly<Record<string, number>>)[word] ?? 0,
    }));
  return [
    ...words("dispositions", "events"),
    { kind: "duplicates", file: file.duplicates, redis: redis.duplicates },
    ...words("deliveries", "deliveries"),
    { kind: "attempts", file: file.attempts.made, redis: redis.attempts.made },
    { kind: "attempts failed", file: file.attempts.failed, redis: redis.attempts.failed },
  ];
}

/** Counts the subjects of a list whose rows exist. */
function createCountSubjects(keys: Keys, link: RedisLink) {
  return async (list: string): Promise<number> => {
    let found = 0;
    for (let from = 0; ; from += atOnce) {
      const names = await link.run((redis) => redis.zrange(keys.of(list), String(from), String(from + atOnce - 1)));
      if (names.length > 0) found += await link.run((redis) => redis.exists(...names.map(keys.of)));
      if (names.length < atOnce) return found;
    }
  };
}

/** Counts the keys that exist. */
async function countNamed(link: RedisLink, slices: Iterable<readonly string[]>): Promise<number> {
  let found = 0;
  for (const some of slices) found += await link.run((redis) => redis.exists(...some));
  return found;
}

function* hydrationKeys({ db }: Source, keys: Keys): Generator<string[]> {
  const select = db.prepare<[number, number], number>("SELECT event FROM hydrations WHERE event > ? ORDER BY event LIMIT ?").pluck();
  for (let after = 0; ; ) {
    const seqs = select.all(after, atOnce);
    if (seqs.length === 0) return;
    after = seqs.at(-1) as number;
    yield seqs.map((seq) => keys.of(`h:${seq}`));
  }
}

function* sendKeys({ db, names }: Source, keys: Keys): Generator<string[]> {
  const select = db.prepare<[number, number], { seq: number; account: number; kind: number; key: string }>(
    "SELECT seq, account, kind, key FROM sends WHERE seq > ? ORDER BY seq LIMIT ?",
  );
  for (let after = 0; ; ) {
    const rows = select.all(after, atOnce);
    const last = rows.at(-1);
    if (last === undefined) return;
    after = last.seq;
    yield rows.map(({ account, kind, key }) => keys.of(`s:${kind}:${names.nameOf(account)}:${key}`));
  }
}
