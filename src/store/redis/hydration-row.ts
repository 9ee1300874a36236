import { type GiveUpReason, giveUpReasons, type HydrationBrief, type HydrationState, hydrationStates } from "../../event/hydration.ts";
import type { SubjectName } from "./keys.ts";

/** What became of a truncated event, in the row `h:<seq>`. Times are unix ms. */
export interface HydrationRow {
  readonly state: HydrationState;
  readonly reason: GiveUpReason | null;
  /** The id that it came with. */
  readonly target: string | null;
  /** What follows is known when it is settled. */
  readonly asked: number;
  readonly found: number;
  /** News up to this seq are the ones found. */
  readonly last: number | null;
  /** The message that the id it came with named: only news of it are found. */
  readonly subject: SubjectName | null;
  readonly unknown: number | null;
  readonly candidates: readonly (readonly [runId: string, reference: string | null])[] | null;
  readonly settledAt: number | null;
}

export function writeHydrationRow(row: HydrationRow): string {
  const { target, asked, found, last, subject, unknown, candidates, settledAt } = row;
  const state = hydrationStates.indexOf(row.state);
  const reason = row.reason === null ? null : giveUpReasons.indexOf(row.reason);
  return JSON.stringify([state, reason, target, asked, found, last, subject, unknown, candidates, settledAt]);
}

export function readHydrationRow(text: string): HydrationRow {
  const [state, reason, target, asked, found, last, subject, unknown, candidates, settledAt] = JSON.parse(text);
  return {
    state: hydrationStates[state] ?? "given-up",
    reason: reason === null ? null : (giveUpReasons[reason] ?? null),
    target,
    asked,
    found,
    last,
    subject,
    unknown,
    candidates,
    settledAt,
  };
}

/** The part of a row that goes downstream. */
export function briefOf(text: string): HydrationBrief {
  const { state, reason, asked, found, unknown, candidates } = readHydrationRow(text);
  return { state, reason, asked, found, unknown, candidates: candidatesOf(candidates) };
}

export function candidatesOf(runs: HydrationRow["candidates"]): HydrationBrief["candidates"] {
  return runs === null ? null : runs.map(([runId, reference]) => ({ runId, reference }));
}

/** Events by the id they came with: a target cannot begin like another one, because it is a JSON text. */
export const targetMember = (target: string, seq: number | string): string => hideSeq(JSON.stringify(target)) + seq;

/** The sign that stands for the seq of an event being accepted, where a user's text has it: the same JSON without the sign. */
export const hideSeq = (json: string): string => json.replaceAll("@seq@", "\\u0040seq@");
