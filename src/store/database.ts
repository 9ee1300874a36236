import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Work } from "./sql/ops.ts";
import type { Batches } from "./work/batches.ts";

/** What runs commands and reads: SQLite at once, PostgreSQL over the network. */
export interface Database {
  /**
   * Runs a command in one of the next transactions, with others of its kind. Resolves with its outcome once that is durable;
   * rejects with `StoreUnavailable` while the database cannot store.
   */
  run<In, Out>(kind: Batches<In, Out>, item: In): Promise<Out>;
  /** Reads what is committed. SQLite answers at once, in one transaction; on PostgreSQL each statement reads for itself. */
  read<T>(work: Work<T>): MaybePromise<T>;
}
