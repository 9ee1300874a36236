import { randomBytes } from "node:crypto";
import { beginKey, endKey, keyStates, type SendClaim, type SendEnd, type SendKey, type StoredSend, sendKinds } from "../../model/send.ts";
import type { DueDelivery } from "../rules.ts";

import type { Db } from "./file.ts";
import type { Names } from "./names.ts";
import type { RegisterSent } from "./register.ts";
import type { SendRow } from "./rows.ts";

const calling = keyStates.indexOf("calling");

/** Idempotency keys of sends. Call `begin`, `settle` and `forget` inside a transaction. */
export function createSends(db: Db, names: Names, register: RegisterSent) {
  // One process has the file, so a call of an earlier opening died with its process and its result is unknown.
  const caller = randomBytes(8).toString("hex");
  const select = db.prepare<[number, number, string], SendRow>("SELECT * FROM sends WHERE account = ? AND kind = ? AND key = ?");
  const insert = db.prepare(
    "INSERT INTO sends (state, tries, about, caller, started_at, fingerprint, account, kind, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const update = db.prepare<[number, number, string, string, number, number]>(
    "UPDATE sends SET state = ?, tries = ?, about = ?, caller = ?, started_at = ? WHERE seq = ?",
  );
  const end = db.prepare<[number, number, string | null, number]>("UPDATE sends SET state = ?, tries = ?, answer = ? WHERE seq = ?");
  const remove = db.prepare<[number]>("DELETE FROM sends WHERE seq = ?");
  const removeOld = db.prepare<[number, number]>(
    `DELETE FROM sends WHERE seq IN (SELECT seq FROM sends WHERE kind = 0 AND started_at < +? AND NOT (state = ${calling} AND caller = '${caller}')
      ORDER BY started_at LIMIT +?)`,
  );

  function rowOf(account: number | null, { kind, key }: SendKey): SendRow | undefined {
    return account === null ? undefined : select.get(account, sendKinds.indexOf(kind), key);
  }

  function viewOf(row: SendRow): StoredSend {
    const { tries: attempts, fingerprint, about } = row;
    const state = row.state === calling && row.caller !== caller ? "unknown" : (keyStates[row.state] ?? "unknown");
    return { state, attempts, fingerprint, about, startedAt: row.started_at, answer: row.answer === null ? null : JSON.parse(row.answer) };
  }

  return {
    find(key: SendKey): StoredSend | null {
      const row = rowOf(names.find("account", key.account), key);
      return row === undefined ? null : viewOf(row);
    },
    /** Null: the key is now taken for this call. Otherwise the send that holds it. */
    begin(key: SendKey, claim: SendClaim): StoredSend | null {
      const account = names.idOf("account", key.account);
      const row = rowOf(account, key);
      const held = row === undefined ? null : viewOf(row);
      const begun = beginKey(held, claim);
      if (begun === null) return held;
      const columns = [keyStates.indexOf(begun.state), begun.attempts, claim.about, caller, claim.at] as const;
      if (row === undefined) insert.run(...columns, claim.fingerprint, account, sendKinds.indexOf(key.kind), key.key);
      else update.run(...columns, row.seq);
      return null;
    },
    /** Ends a call and registers what it sent. Ending it again changes nothing. */
    settle(key: SendKey, ended: SendEnd): readonly DueDelivery[] {
      const row = rowOf(names.idOf("account", key.account), key);
      if (row !== undefined && row.state === calling) {
        const after = endKey(viewOf(row), ended.end);
        if (after === null) remove.run(row.seq);
        else
          end.run(
            keyStates.indexOf(after.state),
            after.attempts,
            ended.end === "done" ? JSON.stringify(ended.answer) : row.answer,
            row.seq,
          );
      }
      return ended.end === "done" ? register(key.account, ended.sent, ended.at) : [];
    },
    /** Deletes keys of messages that were used before `before`. Returns how many. */
    forget: (before: number, limit: number): number => removeOld.run(before, limit).changes,
  };
}
