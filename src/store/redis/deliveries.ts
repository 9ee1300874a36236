import type { ClaimedDeliveries, DeliverySubject, Settlement, StoredDelivery } from "../../model/delivery.ts";
import type { HydrationBrief } from "../../model/hydration.ts";
import type { EventId } from "../../model/ids.ts";
import type { RedisLink } from "./client.ts";
import { type Commit, pushOperations } from "./commit.ts";
import { type EventRow, inlineBody, readBody, readEventRow, stateCode, writeAttempt } from "./event-rows.ts";
import { type Keys, padSeq, readSubjectName } from "./keys.ts";
import { readSubjectRow, rowJson } from "./rows.ts";
import { type Argument, readScript } from "./script.ts";
import { factsOf } from "./subjects.ts";

const claimScript = readScript("claim");
const holdScript = readScript("hold");

interface DeliveriesParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly commit: Commit;
  /** The hydration brief of a truncated event, from its row. */
  readonly briefOf: (row: string) => HydrationBrief | null;
}

/** Claims with a lease, and the results of attempts. */
export function createDeliveries({ keys, link, commit, briefOf }: DeliveriesParts) {
  const { base } = keys;

  function load(route: string, found: readonly Buffer[]): StoredDelivery {
    const [seq, attempts, spent, replays, event, apart, about] = found as [Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer];
    const inline = inlineBody(event);
    const row = readEventRow(rowJson(event.subarray(0, event.length - (inline?.length ?? 0)).toString("utf8")));
    const known = about.length === 0 ? null : rowJson(about.toString("utf8"));
    const hydration = row.subject === null && known !== null ? briefOf(known) : null;
    return {
      route,
      event: Number(seq),
      account: row.account,
      source: row.source,
      eventId: row.id as EventId,
      kind: row.kind ?? "",
      origin: row.origin,
      receivedAt: row.receivedAt,
      body: inline ?? apart,
      headers: row.headers ?? {},
      attempts: Number(attempts),
      spent: Number(spent),
      replays: Number(replays),
      subject: row.subject === null ? null : subjectPart(row, row.subject, known),
      ...(hydration === null ? {} : { hydration }),
    };
  }

  async function hold(route: string, events: readonly number[], holder: string, lease: string): Promise<number[]> {
    if (events.length === 0) return [];
    const list = [base, route, holder, lease, ...events.map(String)];
    const lost = (await link.run((redis) => holdScript.run(redis, `${base}seq`, list))) as string[];
    return lost.map(Number);
  }

  return {
    async claim(
      route: string,
      { now, limit, maxBytes, leaseMs, holder }: { now: number; limit: number; maxBytes: number; leaseMs: number; holder: string },
    ): Promise<ClaimedDeliveries> {
      const list = [base, route, String(now), String(limit), String(maxBytes), String(leaseMs), holder];
      const answer = await link.run((redis) => claimScript.runBuffer(redis, `${base}seq`, list));
      const [stopped, next, found] = answer as [Buffer, Buffer, Buffer[][]];
      const nextDueAt = next.length === 0 ? null : Number(next);
      return {
        deliveries: found.map((one) => load(route, one)),
        more: stopped.length === 0 && nextDueAt !== null && nextDueAt <= now,
        nextDueAt,
        stopped: stopped.length === 0 ? null : (JSON.parse(stopped.toString("utf8")) as { reason: string }).reason,
      };
    },
    renew: (route: string, events: readonly number[], holder: string, leaseMs: number) => hold(route, events, holder, String(leaseMs)),
    async handBack(route: string, events: readonly number[], holder: string): Promise<void> {
      await hold(route, events, holder, "");
    },
    /**
     * `holder` is empty for proxied exchanges, which nobody claims. `isDoubted`: Redis may have lost the event since the
     * attempt began, and reused its number. Returns the event of the delivery that was released.
     */
    async settle({ route, event, eventId, attempt, settled, at, stop = "" }: Settlement, holder = "", isDoubted = false) {
      const who: Argument[] = [String(event), route, holder];
      const what: Argument[] = [String(at), writeAttempt(attempt)];
      const number = String(attempt.number);
      const list: Argument[] = [];
      const id = isDoubted && eventId !== undefined ? JSON.stringify(eventId) : "";
      if (settled.to === "delivered" && stop === "" && id === "") list.push("D", ...who, ...what, number);
      else {
        const next = settled.to === "waiting" ? String(settled.nextAt) : "";
        const reason = settled.to === "dead" ? settled.reason : "";
        const isSpared = settled.to === "waiting" && settled.spares === true;
        list.push("T", "0");
        pushOperations(list, [["settle", ...who, stateCode(settled.to), next, reason, ...what, stop, number, isSpared ? "1" : "", id]]);
      }
      const [, result] = await commit.run({ list });
      return { written: result !== "", released: result === "" || result === "x" ? null : Number(result) };
    },
    /** Events due on a route at `now` and not claimed, soonest first. */
    async due(route: string, now: number, limit: number): Promise<number[]> {
      const found = await link.run((redis) => redis.zrangebyscore(`${base}due:${route}`, "-inf", now, "LIMIT", 0, limit));
      return found.map(Number);
    },
    async nextDueAt(route: string, now: number): Promise<number | null> {
      const found = await link.run((redis) => redis.zrangebyscore(`${base}due:${route}`, `(${now}`, "+inf", "WITHSCORES", "LIMIT", 0, 1));
      return found[1] === undefined ? null : Number(found[1]);
    },
    /** The delivery when it is waiting, claimed or not. Read-only. */
    async load(route: string, event: number): Promise<StoredDelivery | null> {
      const [state, ...counts] = await link.run((redis) => redis.hmget(keys.delivery(event, route), "s", "a", "p", "rp"));
      const row = await link.run((redis) => redis.getBuffer(keys.event(event)));
      const body = await readBody(link, keys, event);
      if (state !== stateCode("waiting") || row === null || body === null) return null;
      const { subject } = readEventRow(rowJson(row.toString("utf8")));
      const about = await link.run((redis) => redis.getBuffer(subject === null ? keys.of(`h:${event}`) : keys.of(subject)));
      const numbers = counts.map((count) => Buffer.from(count ?? "0"));
      return load(route, [Buffer.from(padSeq(event)), ...numbers, row, body, about ?? Buffer.alloc(0)]);
    },
    async stopReason(route: string): Promise<string | null> {
      const found = await link.run((redis) => redis.hget(`${base}stopped`, route));
      return found === null ? null : (JSON.parse(found) as { reason: string }).reason;
    },
    resume: async (route: string): Promise<boolean> => (await link.run((redis) => redis.hdel(`${base}stopped`, route))) > 0,
    /** Ends exchanges that began before `before` (unix ms) and were never settled; returns their number. */
    async abandon(route: string, before: number, at: number, reason: string): Promise<number> {
      const list: Argument[] = ["T", "0"];
      pushOperations(list, [["abandon", route, String(before), String(at), reason]]);
      const [, ended] = await commit.run({ list });
      return Number(ended);
    },
  };
}

function subjectPart(event: EventRow, name: string, row: string | null): DeliverySubject | null {
  if (row === null) return null;
  const { type, key } = readSubjectName(name);
  const facts = factsOf(type, readSubjectRow(row));
  const { tracked, id, reference, metadata } = facts;
  return { type, key, tracked, id, reference, metadata, previousStatus: event.previousStatus, status: event.status, moved: event.moved };
}
