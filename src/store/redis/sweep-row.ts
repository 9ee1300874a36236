import type { Keys } from "./keys.ts";
import { rowJson, type Transaction } from "./transact.ts";

/** An account's open sweep, in the row `sw:<account>`. */
export interface SweepRow {
  /** A number: of the file that it was carried over from. */
  readonly seq: string | number;
  readonly through: number;
  /** Unix ms. */
  readonly startedAt: number;
  /** Calls made for it. */
  readonly asked: number;
}

export const writeSweepRow = ({ seq, through, startedAt, asked }: SweepRow): string => JSON.stringify([seq, through, startedAt, asked]);

/** Takes a row with its version. */
export function readSweepRow(row: string): SweepRow {
  const [seq, through, startedAt, asked] = JSON.parse(rowJson(row));
  return { seq, through, startedAt, asked };
}

/**
 * The sweep, when it is still the account's: a step of one that another process has ended does nothing, because what waits
 * by now is covered by a sweep that has read less.
 */
export async function openSweep(tx: Transaction, keys: Keys, sweep: { account: string; seq: number | string }): Promise<SweepRow | null> {
  const json = await tx.read(keys.of(`sw:${sweep.account}`));
  if (json === null) return null;
  const [seq, through, startedAt, asked] = JSON.parse(json);
  return seq === sweep.seq ? { seq, through, startedAt, asked } : null;
}
