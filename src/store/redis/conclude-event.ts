import type { Disposition, RouteVerdict } from "../../event/plan.ts";
import type { DueDelivery, Rules } from "../rules.ts";
import { type EventRow, planText, writeEventRow } from "./event-rows.ts";
import { type Keys, orderKey, padSeq } from "./keys.ts";
import type { Transaction } from "./transact.ts";

export interface Conclusion {
  readonly disposition: Disposition;
  readonly verdicts: readonly RouteVerdict[];
}

/**
 * An event has its last word: it is parked no more, and stands in the lists of that word. `row` must have been read by
 * this step. The same `verdicts` given again cost less than equal ones.
 */
export function concludeEvent(tx: Transaction, keys: Keys, seq: number, row: EventRow, { disposition, verdicts }: Conclusion): void {
  const { base } = keys;
  const plan = planOf(verdicts);
  tx.call("HSETNX", `${base}plans`, plan.digest, plan.verdicts);
  tx.rewrite(keys.event(seq), writeEventRow({ ...row, disposition, plan: plan.digest, parkedUntil: null, fault: null }));
  if (row.parkedUntil !== null) {
    tx.call("ZREM", `${base}parked`, padSeq(seq));
    if (row.subject !== null) tx.call("ZREM", `${base}pk:${row.subject}`, String(seq));
  }
  if (disposition === "ignored") tx.call("ZADD", `${base}ignored`, String(row.receivedAt), String(seq));
  else if (row.disposition === "ignored") tx.call("ZREM", `${base}ignored`, String(seq));
}

/**
 * Plans the deliveries that `verdicts` ask for. Those that may go out at once are put into `due` when the step is
 * committed. `replays`: how often these deliveries were sent anew before.
 */
export function deliverAll(tx: Transaction, rules: Rules, { seq, subject, verdicts, at, replays = 0 }: Planned, due: DueDelivery[]): void {
  for (const { route, verdict } of verdicts) {
    if (verdict !== "deliver") continue;
    const { ordered, firstWait } = rules.timing(route);
    const order = ordered && subject !== null ? orderKey(subject) : "";
    const delivery = { route, event: seq, at: at + firstWait };
    tx.operate(["deliver", String(seq), route, order, String(delivery.at), String(replays)], (state) => {
      if (state === "0") due.push(delivery);
    });
  }
}

export interface Planned {
  readonly seq: number;
  readonly subject: string | null;
  readonly verdicts: readonly RouteVerdict[];
  /** Unix ms. */
  readonly at: number;
  readonly replays?: number;
}

const texts = new WeakMap<readonly RouteVerdict[], ReturnType<typeof planText>>();

function planOf(verdicts: readonly RouteVerdict[]): ReturnType<typeof planText> {
  const known = texts.get(verdicts);
  if (known !== undefined) return known;
  // The disposition is the event's own; the verdicts alone are kept.
  const text = planText({ disposition: "forwarded", verdicts });
  texts.set(verdicts, text);
  return text;
}
