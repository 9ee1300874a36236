import { rows, type Work } from "../sql/ops.ts";
import { sql } from "../sql/sql.ts";
import { values } from "./state.ts";

const claimKey = (key: string): string => `claim/${key}`;

/** True for the first call with a key. Retention frees the key some time after `until`. */
export function* claimOnce(key: string, until: number): Work<boolean> {
  const claimed = yield* rows(
    sql`INSERT INTO state (key, value, version, until) VALUES (${claimKey(key)}, ${"true"}, 1, ${until})
      ON CONFLICT DO NOTHING RETURNING key`,
  );
  return claimed.length > 0;
}

export function* isClaimed(key: string): Work<boolean> {
  const [claim = null] = yield* values([claimKey(key)]);
  return claim !== null;
}
