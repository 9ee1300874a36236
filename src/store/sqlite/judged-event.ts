import type { JudgedEvent } from "../facts.ts";
import type { Names } from "./names.ts";

/** The columns of an event that routes judge it by. */
export interface JudgedRow {
  account: number;
  source: number;
  body: Buffer;
  status: string | null;
  previous_status: string | null;
  moved: number;
  error_code: string | null;
}

export function judgedEvent(row: JudgedRow, names: Names): JudgedEvent {
  return {
    account: names.nameOf(row.account),
    source: names.nameOf(row.source),
    body: row.body,
    status: row.status,
    previousStatus: row.previous_status,
    errorCode: row.error_code,
    moved: row.moved === 1,
  };
}
