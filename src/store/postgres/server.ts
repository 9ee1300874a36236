import { seqLeap } from "../../model/seq.ts";
import { isNumbered } from "../schema/ddl.ts";
import { tables } from "../schema/tables.ts";
import { rows, type Work } from "../sql/ops.ts";
import { raw, sql } from "../sql/sql.ts";
import { create, put, values } from "../work/state.ts";

/*
 * A standby that is promoted, or a server that starts again after a crash, may have lost the last commits. Its sequences then
 * repeat numbers: listeners would skip the new events, and workers would settle deliveries that they did not send. So the
 * first process that connects to such a server advances its sequences, and no transaction is committed before that.
 */

/** Identifies a run of a server. That of a promoted standby differs from that of its primary. */
export const startOfServer = "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";

const key = "store/server";

/** Makes the server ready for transactions. Returns its start. */
export function* adoptServer(): Work<number> {
  const [found] = yield* rows(sql<{ readonly start: number }>`SELECT ${raw(startOfServer)} AS start`);
  const start = found?.start ?? 0;
  // A full disk refuses locks.
  if ((yield* values<number>([key]))[0] === start) return start;
  const [known = null] = yield* values<number>([key], "update");
  if (known === null) yield* create(key, start);
  else if (known !== start) {
    for (const { name } of tables.filter(isNumbered))
      yield* rows(sql`SELECT setval(${`${name}_seq`}, last_value + ${seqLeap}) FROM ${raw(`${name}_seq`)}`);
    yield* put(key, start);
  }
  return start;
}
