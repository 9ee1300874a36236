import type { KeptVerdict } from "../../rules.ts";
import { type RedisLink, runPipeline } from "../client.ts";
import { readEventRow } from "../event-rows.ts";
import { type Keys, padSeq } from "../keys.ts";
import { readHydrationRow, rowJson } from "../rows.ts";
import { readScript } from "../script.ts";
import { rowsAtOnce, type StoredEvent, type StoredEvents } from "../stored-events.ts";

/** An event with everything that hangs on it. */
export interface Looked {
  readonly row: StoredEvent;
  /** Null when it has none, or one that is not there. */
  readonly verdicts: readonly KeptVerdict[] | null;
  readonly deliveries: readonly LookedDelivery[];
  /** It stands among those that wait to be planned. */
  readonly isWaiting: boolean;
  /** Of one that was only accepted: the lists of planned events that have it all the same. */
  readonly plannedPlaces: readonly string[];
  readonly isHydrating: boolean;
  /** Seq of the event that its id leads to. */
  readonly idLeadsTo: number | null;
  readonly duplicates: number;
  readonly conflicts: number;
}

interface SlicesParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly events: Pick<StoredEvents, "verdicts">;
}

/** An event that changes at every look is being worked on all the time; the last look counts then. */
const mostLooks = 20;

/** Reads events with all that hangs on them, each as it is at one moment. */
export function createSlices({ keys, link, events }: SlicesParts) {
  async function texts(seqs: readonly number[]): Promise<(string | null)[]> {
    return seqs.length === 0 ? [] : link.run((redis) => redis.mget(seqs.map(keys.event)));
  }

  async function look(seqs: readonly number[], rowsBefore: readonly (string | null)[], routes: readonly string[]): Promise<Looked[]> {
    const rows = seqs.flatMap((seq, index): StoredEvent[] => {
      const text = rowsBefore[index] ?? null;
      return text === null ? [] : [{ seq, ...readEventRow(rowJson(text)) }];
    });
    if (rows.length === 0) return [];
    const verdicts = await events.verdicts(rows);
    const asked = rows.flatMap(({ seq }) => routes.map((route) => ({ event: seq, route })));
    const deliveries = Map.groupBy(await lookAtDeliveries(link, keys.base, asked), ({ event }) => event);
    const fields = rows.map(({ seq }) => String(seq));
    const [duplicates, conflicts, ids, hydrations, waiting, places] = await Promise.all([
      link.run((redis) => redis.hmget(keys.of("dups"), ...fields)),
      link.run((redis) => redis.hmget(keys.of("conflicts"), ...fields)),
      link.run((redis) => redis.mget(rows.map(({ account, id }) => keys.of(`id:${account}:${id ?? ""}`)))),
      link.run((redis) => redis.mget(rows.map(({ seq }) => keys.of(`h:${seq}`)))),
      waitingAmong(
        { keys, link },
        rows.map(({ seq }) => seq),
      ),
      plannedPlaces({ keys, link }, rows),
    ]);
    const none: readonly LookedDelivery[] = [];
    return rows.map((row, index) => {
      const hydration = hydrations[index] ?? null;
      return {
        row,
        verdicts: row.plan === null ? null : (verdicts[index] ?? []),
        deliveries: deliveries.get(row.seq) ?? none,
        isWaiting: waiting.has(row.seq),
        plannedPlaces: places.get(row.seq) ?? [],
        isHydrating: hydration !== null && readHydrationRow(rowJson(hydration)).state === "waiting",
        idLeadsTo: ids[index] === null ? null : Number(ids[index]),
        duplicates: Number(duplicates[index] ?? 0),
        conflicts: Number(conflicts[index] ?? 0),
      };
    });
  }

  /** Of at most `rowsAtOnce` seqs those that are there. What changed under the look is looked at again. */
  return async function read(seqs: readonly number[]): Promise<Looked[]> {
    const routes = await link.run((redis) => redis.smembers(keys.of("routes")));
    const found = new Map<number, Looked>();
    let left = seqs.slice(0, rowsAtOnce);
    for (let looks = 0; left.length > 0; looks += 1) {
      const before = await texts(left);
      const looked = await look(left, before, routes);
      const after = await texts(left);
      const isSame = new Map(left.map((seq, index) => [seq, before[index] === after[index]]));
      for (const one of looked) if (isSame.get(one.row.seq) === true || looks >= mostLooks) found.set(one.row.seq, one);
      left = looks >= mostLooks ? [] : left.filter((seq) => isSame.get(seq) === false);
    }
    return seqs.flatMap((seq) => found.get(seq) ?? []);
  };
}

/** A delivery as an audit sees it. */
export interface LookedDelivery {
  readonly event: number;
  readonly route: string;
  /** Its place in the list of states. */
  readonly state: number;
  readonly attempts: number;
  /** Attempts written down. */
  readonly tries: number;
  /** Letters, see `lua/inspect.lua`. */
  readonly places: string;
  readonly fields: ReadonlySet<string>;
}

const inspectScript = readScript("inspect");

/** Deliveries in one answer: each takes Redis some microseconds, in which it does nothing else. */
const deliveriesAtOnce = 200;

/** Gives those that are there, in the order asked for. */
async function lookAtDeliveries(
  link: RedisLink,
  base: string,
  asked: readonly { readonly event: number; readonly route: string }[],
): Promise<LookedDelivery[]> {
  const looked: LookedDelivery[] = [];
  for (let from = 0; from < asked.length; from += deliveriesAtOnce) {
    const some = asked.slice(from, from + deliveriesAtOnce);
    const list = [base, ...some.flatMap(({ event, route }) => [String(event), route])];
    const found = (await link.run((redis) => inspectScript.run(redis, `${base}seq`, list))) as (string | string[])[];
    for (const [index, { event, route }] of some.entries()) {
      const one = found[index];
      if (one === undefined || typeof one === "string") continue;
      const [state, attempts, places = "", ...fields] = one;
      const tries = fields.filter((name) => /^a\d+$/.test(name)).length;
      looked.push({ event, route, state: Number(state), attempts: Number(attempts), tries, places, fields: new Set(fields) });
    }
  }
  return looked;
}

export interface WaitingParts {
  readonly keys: Keys;
  readonly link: RedisLink;
}

const waitingScript = readScript("unplanned");

/** Seqs in one answer. */
const waitingAtOnce = 1_000;

/** Those that wait to be planned and are greater than `after`, some at a time. */
export async function* waitingAfter({ keys, link }: WaitingParts, after: number): AsyncGenerator<readonly number[]> {
  for (let from = after; ; ) {
    const list = [keys.base, String(from), String(waitingAtOnce)];
    const found = (await link.run((redis) => waitingScript.run(redis, `${keys.base}seq`, list))) as string[];
    const seqs = found.map(Number);
    yield seqs;
    const last = seqs.at(-1) ?? 0;
    if (seqs.length < waitingAtOnce || last <= from) return;
    from = last;
  }
}

/** Of these seqs, smallest first, those that wait to be planned. */
export async function waitingAmong(parts: WaitingParts, seqs: readonly number[]): Promise<ReadonlySet<number>> {
  const [first, last] = [seqs[0], seqs.at(-1)];
  const found = new Set<number>();
  if (first === undefined || last === undefined) return found;
  for await (const some of waitingAfter(parts, first - 1)) {
    for (const seq of some) if (seq <= last) found.add(seq);
    if ((some.at(-1) ?? last) >= last) break;
  }
  return found;
}

/** Lists in which only what was planned stands, and which have one of these events that were only accepted; by its seq. */
async function plannedPlaces({ keys, link }: WaitingParts, rows: readonly StoredEvent[]): Promise<ReadonlyMap<number, readonly string[]>> {
  const asked = rows
    .filter(({ disposition }) => disposition === "accepted")
    .flatMap(({ seq, subject, origin }) => [
      // What the relay learned itself stands among them from the first: it is counted before it is planned.
      ...(subject === null || origin !== "webhook"
        ? []
        : [{ seq, list: `es:${subject}`, member: String(seq), name: "the events of its message" }]),
      { seq, list: "ignored", member: String(seq), name: "those that are ignored" },
      { seq, list: "parked", member: padSeq(seq), name: "those that are parked" },
    ]);
  if (asked.length === 0) return new Map();
  const scores = await runPipeline(link, (commands) => {
    for (const { list, member } of asked) commands.zscore(keys.of(list), member);
  });
  const found = Map.groupBy(
    asked.filter((_, index) => scores[index] !== null),
    ({ seq }) => seq,
  );
  return new Map([...found].map(([seq, places]) => [seq, places.map(({ name }) => name)]));
}
