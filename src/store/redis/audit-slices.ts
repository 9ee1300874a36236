import { outcomeOfRow } from "../../model/delivery.ts";
import type { KeptVerdict } from "../../model/plan.ts";
import { type RedisLink, runPipeline } from "./client.ts";
import { readAttempt, readEventRow, rowsAtOnce, type StoredEvent, type StoredEvents } from "./event-rows.ts";
import { type Keys, padSeq } from "./keys.ts";
import { readHydrationRow, rowJson } from "./rows.ts";
import { readScript } from "./script.ts";

/** An event with its deliveries and everything else that an audit checks. */
export interface Looked {
  readonly row: StoredEvent;
  /** Null without a plan, or when the plan is missing. */
  readonly verdicts: readonly KeptVerdict[] | null;
  readonly deliveries: readonly LookedDelivery[];
  /** It is in the list of unplanned events. */
  readonly isWaiting: boolean;
  /** For an event that is only accepted: lists of planned events that have it nevertheless. */
  readonly plannedPlaces: readonly string[];
  readonly isHydrating: boolean;
  /** Seq of the event that its id maps to. */
  readonly idLeadsTo: number | null;
  readonly duplicates: number;
  readonly conflicts: number;
}

interface SlicesParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly events: Pick<StoredEvents, "verdicts">;
}

/** Reads of an event that changes every time; then the last read counts. */
const mostLooks = 20;

/** Reads events with all that is checked, each in one consistent state. */
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

  /** Reads at most `rowsAtOnce` seqs. Events that changed meanwhile are read again. */
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

/** What an audit reads of a delivery. */
export interface LookedDelivery {
  readonly event: number;
  readonly route: string;
  /** Index in the list of states. */
  readonly state: number;
  readonly attempts: number;
  /** Attempts stored. */
  readonly storedAttempts: number;
  /** The same, without their responses. */
  readonly made: readonly { readonly at: number; readonly outcome: string }[];
  /** Letters, see `lua/inspect-deliveries.lua`. */
  readonly places: string;
  readonly fields: ReadonlySet<string>;
}

const inspectScript = readScript("inspect-deliveries");

/** Deliveries per step: each blocks Redis for some microseconds. */
const deliveriesAtOnce = 200;

type LookedFields = [state: string, attempts: string, places: string, heads: string[], ...fields: string[]];

function madeAttempt(head: string): LookedDelivery["made"][number] {
  const { at, status, error } = readAttempt(0, Buffer.from(head));
  return { at, outcome: outcomeOfRow(status, error) };
}

/** Returns the existing deliveries, in the order of `asked`. */
async function lookAtDeliveries(
  link: RedisLink,
  base: string,
  asked: readonly { readonly event: number; readonly route: string }[],
): Promise<LookedDelivery[]> {
  const looked: LookedDelivery[] = [];
  for (let from = 0; from < asked.length; from += deliveriesAtOnce) {
    const some = asked.slice(from, from + deliveriesAtOnce);
    const list = [base, ...some.flatMap(({ event, route }) => [String(event), route])];
    const found = (await link.run((redis) => inspectScript.run(redis, `${base}seq`, list))) as (string | LookedFields)[];
    for (const [index, { event, route }] of some.entries()) {
      const one = found[index];
      if (one === undefined || typeof one === "string") continue;
      const [state, attempts, places, heads, ...fields] = one;
      const made = heads.map(madeAttempt);
      looked.push({
        event,
        route,
        state: Number(state),
        attempts: Number(attempts),
        storedAttempts: made.length,
        made,
        places,
        fields: new Set(fields),
      });
    }
  }
  return looked;
}

export interface WaitingParts {
  readonly keys: Keys;
  readonly link: RedisLink;
}

const waitingScript = readScript("unplanned");

/** Seqs per step. */
const waitingAtOnce = 1_000;

/** Unplanned seqs greater than `after`, some at a time. */
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

/** The unplanned ones of these seqs, which are in ascending order. */
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

/** For events that are only accepted: the lists of planned events that have them, by seq. */
async function plannedPlaces({ keys, link }: WaitingParts, rows: readonly StoredEvent[]): Promise<ReadonlyMap<number, readonly string[]>> {
  const asked = rows
    .filter(({ disposition }) => disposition === "accepted")
    .flatMap(({ seq, subject, origin }) => [
      // Events that the relay made itself are listed before they are planned.
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
