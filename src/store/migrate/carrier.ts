import { metadataFault } from "../../event/metadata.ts";
import { StoreRefused } from "../store-error.ts";
import type { Batch } from "./batch.ts";
import type { Source } from "./source.ts";

/** What carries the rows of one kind over, some at a time, in an order that stays. */
export interface Carrier {
  /** Of what is carried, for people. */
  readonly kind: string;
  /** The places of its first and last row; 0 and 0: there are none. */
  readonly first: number;
  readonly last: number;
  /** Puts the rows that come after the place into the batch, as many as fit; gives the place of the last one, null when there are none. */
  next(after: number, batch: Batch): number | null;
}

export interface CarrierParts {
  readonly source: Source;
  /** Of each row that is written. */
  readonly version: () => string;
}

/** Rows of one batch: Redis does nothing else for a millisecond or two. */
export const rowsAtOnce = 120;

/** The smallest and the greatest number of a table's rows. */
export function boundsOf({ db }: Pick<Source, "db">, table: string): { first: number; last: number } {
  const found = db
    .prepare<[], { first: number | null; last: number | null }>(
      `SELECT (SELECT min(seq) FROM ${table}) AS first, (SELECT max(seq) FROM ${table}) AS last`,
    )
    .get();
  return { first: found?.first ?? 0, last: found?.last ?? 0 };
}

/** Metadata as it is carried over. Throws `StoreRefused` when it is more than the relay takes: another program has written it. */
export function carriedMetadata(metadata: string | null, owner: string): string | null {
  const fault = metadata === null ? null : metadataFault(JSON.parse(metadata) as Record<string, unknown>);
  if (fault === null) return metadata;
  throw new StoreRefused(`the metadata of ${owner} ${fault}; the relay does not take that, so it was not written by one`);
}
