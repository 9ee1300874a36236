import { never, queueState, settledState } from "../schema/tables.ts";
import type { OpenRow, SettledRow } from "./slices.ts";

/** An event and its message or run, which give a delivery its lane. */
interface Placed {
  readonly seq: number;
  readonly subject: number | null;
}

export const isInLane = (lane: number, { seq, subject }: Placed): boolean => lane === -seq || lane === subject;

/** Why a settled delivery contradicts itself. Null: it does not. */
export function settledFault({ state, attempts, reason, lane }: SettledRow, event: Placed): string | null {
  if (!isInLane(lane, event)) return otherLane;
  if (state === settledState.delivered) return attempts === 0 ? "is delivered without an attempt" : null;
  if (state === settledState.dead) return reason === null ? "is dead for no reason" : null;
  return unknown(state);
}

/** Why a delivery in the queue contradicts itself. `rows`: all that it has there, usually one. Null: it does not. */
export function openFault(rows: readonly OpenRow[]): string | null {
  const [row] = rows;
  if (row === undefined || rows.length > 1) return "waits twice";
  const { state, lane, next_at: nextAt } = row;
  if (state === queueState.waiting || state === queueState.exchange) return nextAt === never ? "waits for no time" : null;
  if (state === queueState.parked) return "is parked, and the route's verdict was to deliver";
  if (state !== queueState.held) return unknown(state);
  if (lane < 0) return "is held, and nothing orders it";
  return nextAt === never ? null : "is held, and has a time";
}

export const otherLane = "is in the lane of another message";
export const alsoSettled = "waits, and is settled";
const unknown = (state: number): string => `has the unknown state ${state}`;
