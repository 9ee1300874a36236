import type { ReceivedEvent } from "../../model/event.ts";
import type { QuarantinedEvent, QuarantinedFound, QuarantineFilter, ReleasedEvent, ReplayCursor } from "../port.ts";
import type { AcceptOutcome } from "../rules.ts";
import { readBodies, readEventRow, type StoredEvent, writeEventRow } from "./event-rows.ts";
import { countDisposition } from "./history.ts";
import type { WriteParts } from "./transact.ts";

interface Parts extends Omit<WriteParts, "rules"> {
  readonly accept: (event: ReceivedEvent, proxyRoute: null) => Promise<AcceptOutcome>;
}

interface Place {
  readonly seq: number;
  readonly at: number;
}

export function createQuarantine({ keys, link, transact, events, accept }: Parts) {
  const list = `${keys.base}quarantined`;

  /** Reads all of one millisecond together, because Redis orders them as text, not by seq. */
  async function placesAfter(at: number, seq: number, limit: number): Promise<Place[]> {
    const range = async (from: number | string, to: number | string, most: number | null): Promise<Place[]> => {
      const limited = most === null ? [] : ["LIMIT", 0, most];
      const found = await link.run((redis) => redis.call("ZRANGE", list, from, to, "BYSCORE", ...limited, "WITHSCORES"));
      return placesIn(found as readonly unknown[]);
    };
    const later = await range(`(${at}`, "+inf", limit);
    const last = later.at(-1)?.at;
    const same = [...(await range(at, at, null)), ...(last === undefined ? [] : await range(last, last, null))];
    const bySeq = new Map([...same, ...later].map((place) => [place.seq, place]));
    return [...bySeq.values()].filter((place) => place.at > at || place.seq > seq).sort((a, b) => a.at - b.at || a.seq - b.seq);
  }

  async function read(seqs: readonly number[]): Promise<QuarantinedEvent[]> {
    const rows = (await events.rows(seqs)).filter(({ disposition }) => disposition === "quarantined");
    if (rows.length === 0) return [];
    const bodies = await readBodies(
      link,
      keys,
      rows.map(({ seq }) => seq),
    );
    return rows.flatMap((row, index) => {
      const body = bodies[index] ?? null;
      return body === null ? [] : [view(row, body)];
    });
  }

  return {
    quarantined: async (seq: number): Promise<QuarantinedEvent | null> => (await read([seq]))[0] ?? null,
    async findQuarantined({ source, from = 0, to }: QuarantineFilter, cursor: ReplayCursor, limit: number): Promise<QuarantinedFound> {
      const route = Number(cursor.route);
      const start = route < from ? { at: from, seq: 0 } : { at: route, seq: cursor.event };
      const places = (await placesAfter(start.at, start.seq, limit)).slice(0, limit);
      const candidates = places.filter(({ at }) => at <= cursor.since && (to === undefined || at < to));
      const found = (await read(candidates.map(({ seq }) => seq))).filter((one) => source === undefined || one.source === source);
      const last = places.at(-1);
      const isOver = last === undefined || places.length < limit || (to !== undefined && last.at >= to);
      return { found, cursor: isOver ? null : { since: cursor.since, event: last.seq, route: last.at } };
    },
    /**
     * Two steps. If the process dies between them, the body stays quarantined; the next release finds the event by its id,
     * and only runs the second step.
     */
    async release(event: ReleasedEvent): Promise<AcceptOutcome | null> {
      const { releaseOf: seq } = event;
      const [row] = await events.rows([seq]);
      if (row?.disposition !== "quarantined") return null;
      const outcome = await accept(event, null);
      await transact(async (tx) => {
        const json = await tx.read(keys.event(seq));
        const stored = json === null ? null : readEventRow(json);
        if (stored?.disposition !== "quarantined") return;
        tx.rewrite(keys.event(seq), writeEventRow({ ...stored, disposition: "released", release: outcome.seq }));
        countDisposition(tx, stored, "released");
        tx.call("ZREM", list, String(seq));
      });
      return outcome;
    },
  };
}

/** Members with their scores: pairs with RESP3, one after the other without. */
function placesIn(found: readonly unknown[]): Place[] {
  const flat = found.flat();
  const places: Place[] = [];
  for (let index = 0; index + 1 < flat.length; index += 2) places.push({ seq: Number(flat[index]), at: Number(flat[index + 1]) });
  return places;
}

function view({ seq, account, source, origin, receivedAt, headers }: StoredEvent, body: Buffer): QuarantinedEvent {
  return { seq, account, source, origin, receivedAt, headers: headers ?? {}, body };
}
