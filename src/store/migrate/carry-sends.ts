import { type KeyState, keyStates } from "../../event/send-key.ts";
import { boundsOf, type Carrier, type CarrierParts, rowsAtOnce } from "./carrier.ts";

interface Row {
  seq: number;
  account: number;
  kind: number;
  key: string;
  state: number;
  fingerprint: string;
  tries: number;
  about: string;
  caller: string;
  started_at: number;
  answer: string | null;
}

/** Keys of sends, and references of runs. Whoever was calling has ended with its process: nobody knows what came of that. */
export function carrySends({ source, version }: CarrierParts): Carrier {
  const { db, names } = source;
  const select = db.prepare<[number, number], Row>("SELECT * FROM sends WHERE seq > ? ORDER BY seq LIMIT ?");
  return {
    kind: "keys of sends",
    ...boundsOf(source, "sends"),
    next(after, batch) {
      const rows = select.all(after, rowsAtOnce);
      for (const { account: accountId, kind, key, fingerprint, tries, about, caller, started_at: startedAt, ...row } of rows) {
        const account = names.nameOf(accountId);
        const known: KeyState = keyStates[row.state] ?? "unknown";
        const state: KeyState = known === "calling" ? "unknown" : known;
        const answer = row.answer === null ? null : JSON.parse(row.answer);
        const send = JSON.stringify({ state, fingerprint, tries, about, caller, startedAt, answer });
        batch.set(`s:${kind}:${account}:${key}`, version() + send);
        if (kind === 0) batch.list("sends", startedAt, `${account}:${key}`);
      }
      return rows.at(-1)?.seq ?? null;
    },
  };
}
