import type { StoryReading } from "../reading.ts";
import type { Held, SeqRange, Unplanned, WaitingEvent, WaitingEvents } from "../views.ts";
import { type RedisLink, runMulti, runPipeline } from "./client.ts";
import { readEventRow, stateCode } from "./event-rows.ts";
import { type Keys, messageName, runName } from "./keys.ts";
import { rowJson } from "./rows.ts";
import { readScript } from "./script.ts";
import { createKeyedMutex } from "./transact.ts";

/** What `explain` reads besides events, messages and deliveries. */
export function createReadStories(keys: Keys, link: RedisLink, waiting: ReadWaiting) {
  return {
    ...waiting,
    /** Seqs of the events about a message or run, oldest first. */
    async eventsOf(type: "message" | "run", account: string, key: string, after: number, limit: number): Promise<number[]> {
      const name = type === "message" ? messageName(account, key) : runName(account, key);
      const found = await link.run((redis) => redis.zrange(keys.of(`es:${name}`), `(${after}`, "+inf", "BYSCORE", "LIMIT", 0, limit));
      return found.map(Number);
    },
    /** What a held delivery waits for; null when it is no longer held. */
    async held(event: number, route: string): Promise<Held | null> {
      const [state, order] = await link.run((redis) => redis.hmget(keys.delivery(event, route), "s", "o"));
      if (state !== stateCode("held") || order === null || order === undefined) return null;
      const answers = await runPipeline(link, (commands) =>
        commands.get(`${keys.base}o:${route}:${order}`).zcount(`${keys.base}oh:${route}:${order}`, "-inf", `(${event}`),
      );
      const [behind, ahead] = answers as [string | null, number];
      return behind === null ? null : { behind: Number(behind), ahead };
    },
    /** Why a route's destination is stopped; null when it is not. */
    async stopReason(route: string): Promise<string | null> {
      const found = await link.run((redis) => redis.hget(`${keys.base}stopped`, route));
      return found === null ? null : readStop(found).reason;
    },
  } satisfies StoryReading;
}

/** `at`: unix ms. */
export const readStop = (text: string) => JSON.parse(text) as { readonly at: number; readonly reason: string };

const script = readScript("search-unplanned");

/** Events per step; each step blocks Redis for two milliseconds. */
const atOnce = 500;
/** Events searched per request: the newest. */
const mostLooked = 50_000;

/** `[place and seq of the oldest event searched, number of older ones, …(seq, account, place of the wamid from 1)]`. */
type Answer = readonly [place: number, oldest: string, older: number, ...found: (string | number)[]];

/**
 * Unplanned events of messages. No index leads to them, because accepting an event must stay cheap: a reader searches the
 * list from its end, away from the head that planning takes from.
 */
export function createReadWaiting(keys: Keys, link: RedisLink) {
  /** One search at a time, so that other commands get through between two steps. */
  const mutex = createKeyedMutex();

  const look = (range: SeqRange, most: number, texts: readonly string[]): Promise<Answer> =>
    link.run((redis) =>
      script.run(redis, keys.of("seq"), [keys.base, String(range.after), String(range.before), String(most), ...texts]),
    ) as Promise<Answer>;

  async function lookThrough(wamids: readonly string[], { after, before }: SeqRange): Promise<WaitingEvents> {
    // As it follows the account in a row: the end of a JSON string, and a comma.
    const texts = wamids.map((wamid) => `${JSON.stringify(wamid).slice(1)},`);
    const events: WaitingEvent[] = [];
    for (let looked = 0, end = before; ; ) {
      const [, oldest, older, ...found] = await look({ after, before: end }, atOnce, texts);
      for (let n = 0; n < found.length; n += 3) {
        const wamid = wamids[Number(found[n + 2]) - 1] as string;
        events.push({ seq: Number(found[n]), account: String(found[n + 1]), wamid });
      }
      looked += atOnce;
      if (older === 0 || looked >= mostLooked) return { events: events.sort((a, b) => a.seq - b.seq), unseen: older };
      end = Number(oldest);
    }
  }

  return {
    /** Unplanned events of these messages; some may be planned meanwhile. */
    async waitingOf(wamids: readonly string[], range: SeqRange): Promise<WaitingEvents> {
      const done = await mutex.take("search");
      try {
        return await lookThrough(wamids, range);
      } finally {
        done();
      }
    },
    /** Number of events ahead of this one; null when it does not wait. */
    async ahead(seq: number): Promise<number | null> {
      const [place, oldest] = await look({ after: seq - 1, before: seq + 1 }, 1, []);
      return Number(oldest) === seq ? place : null;
    },
  };
}

export type ReadWaiting = ReturnType<typeof createReadWaiting>;

/** Events that are accepted and not planned yet. */
export function createReadUnplanned(keys: Keys, link: RedisLink): () => Promise<Unplanned> {
  const list = keys.of("unplanned");

  return async () => {
    // Atomic: workers take from the head.
    const answers = await runMulti(link, (commands) => commands.llen(list).lindex(list, 0));
    const [events, head] = answers as [number, string | null];
    const row = head === null ? null : await link.run((redis) => redis.get(keys.event(head)));
    return { events, oldestAt: row === null ? null : readEventRow(rowJson(row)).receivedAt };
  };
}
