import type { DeliverySubject, Settlement, StoredDelivery } from "../../model/delivery.ts";

import { outcomeOf } from "../../model/delivery.ts";
import type { EventId } from "../../model/ids.ts";
import type { RedisLink } from "./client.ts";
import { type Commit, type Form, pushOperations } from "./commit.ts";
import { type EventRow, inlineBody, readEventRow, stateCode, writeAttempt } from "./event-rows.ts";
import { countsOfAttempt, fieldOf, sampleOfDelivery, tailOf } from "./history.ts";
import { type Keys, readSubjectName } from "./keys.ts";
import { briefOf, readSubjectRow, rowJson } from "./rows.ts";
import { type Argument, readScript } from "./script.ts";
import { factsOf } from "./subjects.ts";

const claimScript = readScript("claim");
const renewScript = readScript("renew");

/** Claims with a lease, and the results of attempts. */
export function createDeliveries({ base }: Keys, link: RedisLink, commit: Commit) {
  /** `lease` empty: hands back. Returns the events that the holder has lost. */
  async function renew(route: string, events: readonly number[], holder: string, lease: string): Promise<number[]> {
    if (events.length === 0) return [];
    const list = [base, route, holder, lease, ...events.map(String)];
    const lost = (await link.run((redis) => renewScript.run(redis, `${base}seq`, list))) as string[];
    return lost.map(Number);
  }

  return {
    async claim(
      route: string,
      { now, limit, maxBytes, leaseMs, holder }: { now: number; limit: number; maxBytes: number; leaseMs: number; holder: string },
    ) {
      const list = [base, route, String(now), String(limit), String(maxBytes), String(leaseMs), holder];
      const answer = await link.run((redis) => claimScript.runBuffer(redis, `${base}seq`, list));
      const [stopped, next, found] = answer as [Buffer, Buffer, Buffer[][]];
      const nextDueAt = next.length === 0 ? null : Number(next);
      return {
        deliveries: found.map((one) => readDelivery(route, one)),
        more: stopped.length === 0 && nextDueAt !== null && nextDueAt <= now,
        nextDueAt,
        stopped: stopped.length === 0 ? null : (JSON.parse(stopped.toString("utf8")) as { reason: string }).reason,
      };
    },
    renew: (route: string, events: readonly number[], holder: string, leaseMs: number) => renew(route, events, holder, String(leaseMs)),
    async handBack(route: string, events: readonly number[], holder: string): Promise<void> {
      await renew(route, events, holder, "");
    },
    /**
     * `holder` is empty for proxied exchanges, which nobody claims. `isDoubted`: Redis may have lost the event since the
     * attempt began, and reused its number. Returns the event of the delivery that was released.
     */
    async settle(settlement: Settlement, holder = "", isDoubted = false) {
      const { route, event, eventId, attempt, settled, at, stop = "" } = settlement;
      const what: Argument[] = [String(at), writeAttempt(attempt)];
      const number = String(attempt.number);
      const id = isDoubted && eventId !== undefined ? JSON.stringify(eventId) : "";
      const counts = countsOfAttempt(settlement);
      const sample = sampleOfDelivery(settlement);
      const list: Argument[] = [];
      let form: Form | null = null;
      if (settled.to === "delivered" && stop === "" && id === "") {
        form = { kind: "D", usage: holder, routes: [route], counts, isTimed: sample !== null, isRare: false };
        list.push(String(event), ...what, number, ...(sample === null ? [] : [sample.join(" ")]));
      } else {
        const next = settled.to === "waiting" ? String(settled.nextAt) : "";
        const why = settled.to === "delivered" ? "" : `${outcomeOf(attempt.result)} ${settled.to === "dead" ? settled.reason : ""}`;
        const isSpared = settled.to === "waiting" && settled.spares === true;
        const changes = sample === null ? counts : [...counts, ...sample, "1"];
        const how = [stop, number, isSpared ? "1" : "", id, ...changes];
        list.push("T", "0");
        pushOperations(list, [["settle", String(event), route, holder, stateCode(settled.to), next, why, ...what, ...how]]);
      }
      const [, result] = await commit.run(form === null ? { list } : { list, form });
      return { written: result !== "", released: result === "" || result === "x" ? null : Number(result) };
    },
    resume: async (route: string): Promise<boolean> => (await link.run((redis) => redis.hdel(`${base}stopped`, route))) > 0,
    /** Ends exchanges that began before `before` (unix ms) and were never settled; returns their number. */
    async abandon(route: string, before: number, at: number, reason: string): Promise<number> {
      const list: Argument[] = ["T", "0"];
      pushOperations(list, [["abandon", route, String(before), String(at), reason, tailOf("dead", at), fieldOf(route, "")]]);
      const [, ended] = await commit.run({ list });
      return Number(ended);
    },
  };
}

/** Seq, attempts, attempts since the last replay, replays, row of the event, separate body, and row of the subject or hydration. */
export function readDelivery(route: string, found: readonly Buffer[]): StoredDelivery {
  const [seq, attempts, spent, replays, event, apart, about] = found as [Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer];
  const inline = inlineBody(event);
  const row = readEventRow(rowJson(event.subarray(0, event.length - (inline?.length ?? 0)).toString("utf8")));
  const known = about.length === 0 ? null : rowJson(about.toString("utf8"));
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
    ...(row.subject === null && known !== null ? { hydration: briefOf(known) } : {}),
  };
}

function subjectPart(event: EventRow, name: string, row: string | null): DeliverySubject | null {
  if (row === null) return null;
  const { type, key } = readSubjectName(name);
  const { tracked, id, reference, metadata } = factsOf(type, readSubjectRow(row));
  return { type, key, tracked, id, reference, metadata, previousStatus: event.previousStatus, status: event.status, moved: event.moved };
}
