import { fewestPhoneDigits, parseMask } from "../../model/mask.ts";
import { shownMetadata } from "../../model/message.ts";
import type { MessageFilter, MessageView, Numbered, RunFilter, RunView } from "../views.ts";
import type { Db } from "./file.ts";
import type { Names } from "./names.ts";
import { addPhoneEnds, createBounds, joinConditions } from "./query.ts";
import type { MessageRow, RunRow } from "./track.ts";

/** The references that begin with `@prefix`. A plus stops SQLite from using their index, which it would have to sort for one page. */
const begins = (plus: "" | "+") => `${plus}reference >= @prefix AND ${plus}reference < @prefixEnd`;
const prefixValues = (prefix: string | undefined): Record<string, string> =>
  prefix === undefined ? {} : { prefix, prefixEnd: `${prefix}\u{10FFFF}` };
/** References are looked up in their index when at most so many begin with a prefix. */
const fewReferences = 1_000;

/** Messages returned for one name. */
const mostFound = 100;

export function createReadMessages(db: Db, names: Names) {
  addPhoneEnds(db);
  const inAccounts = "account IN (SELECT id FROM names WHERE kind = 'account')";
  const by = (condition: string) =>
    db.prepare<[string | number], MessageRow>(`SELECT * FROM messages WHERE ${condition} ORDER BY seq DESC LIMIT ${mostFound}`);
  const byWamid = by(`${inAccounts} AND wamid = ?`);
  const byMask = by("mask = ?");
  const byId = by("service_id = ?");
  const byIdMask = by("id_mask = ?");
  const byReference = by("reference = ?");

  const countReferences = db
    .prepare<[Record<string, string>], number>(
      `SELECT count(*) FROM (SELECT 1 FROM messages WHERE reference IS NOT NULL AND ${begins("")} LIMIT ${fewReferences + 1})`,
    )
    .pluck();
  const isRare = (prefix: string): boolean => (countReferences.get(prefixValues(prefix)) ?? 0) <= fewReferences;

  const accountOf = accountsIn(names);

  function viewOf(row: MessageRow): Numbered<MessageView> {
    return {
      seq: row.seq,
      account: names.nameOf(row.account),
      wamid: row.wamid,
      id: row.service_id,
      conversationId: row.conversation_id,
      reference: row.reference,
      metadata: shownMetadata(row.metadata),
      status: row.status,
      errorCode: row.error_code,
      times: JSON.parse(row.times),
      sentAt: row.told_sent_at,
      registeredAt: row.registered_at,
      updatedAt: row.updated_at,
    };
  }

  return {
    bounds: createBounds(db, "messages"),
    list(filter: MessageFilter): Numbered<MessageView>[] {
      const { account, status, reference, prefix, errorCode, phone, seen, from, to, after, before, limit } = filter;
      const { where, values } = joinConditions(
        [
          ["seq > @after", after],
          ["seq < @before", before],
          ["registered_at IS NOT NULL", seen !== true],
          ["account = @account", accountOf(account)],
          // The literal lets SQLite use the index of failed messages.
          ["status = 'failed'", status === "failed"],
          ["status = @status", status === "failed" ? undefined : status],
          ["reference = @reference", reference],
          [`seq IN (SELECT seq FROM messages WHERE ${begins("")})`, prefix !== undefined && isRare(prefix)],
          [begins("+"), prefix !== undefined],
          ["error_code = @errorCode", errorCode],
          ["updated_at >= @since", from],
          ["updated_at < @until", to],
          ["phone = @lastDigits", phone === undefined ? undefined : Number(phone.slice(-fewestPhoneDigits))],
          ["phone_ends(wamid, @phone)", phone],
        ],
        { limit, ...prefixValues(prefix) },
      );
      return db
        .prepare<[typeof values], MessageRow>(`SELECT * FROM messages WHERE ${where} ORDER BY seq DESC LIMIT @limit`)
        .all(values)
        .map(viewOf);
    },
    find(name: string): Numbered<MessageView>[] {
      const [mask, idMask] = [parseMask("wamid", name), parseMask("message", name)];
      let rows = byWamid.all(name);
      if (rows.length === 0 && mask !== null) rows = byMask.all(mask);
      if (rows.length === 0) rows = byId.all(name);
      if (rows.length === 0 && idMask !== null) rows = byIdMask.all(idMask);
      if (rows.length === 0) rows = byReference.all(name);
      return rows.map(viewOf);
    },
  };
}

/** The number of an account that a filter gives. -1: it is unknown and has no rows. */
function accountsIn(names: Names): (name: string | undefined) => number | undefined {
  return (name) => (name === undefined ? undefined : (names.find("account", name) ?? -1));
}

export function createReadRuns(db: Db, names: Names) {
  const accountOf = accountsIn(names);

  function viewOf(row: RunRow): Numbered<RunView> {
    return {
      seq: row.seq,
      account: names.nameOf(row.account),
      runId: row.run_id,
      reference: row.reference,
      metadata: shownMetadata(row.metadata),
      status: row.status,
      error: row.error,
      times: JSON.parse(row.times),
      registeredAt: row.registered_at,
      updatedAt: row.updated_at,
    };
  }

  return {
    bounds: createBounds(db, "runs"),
    list({ account, status, reference, prefix, runId, after, before, limit }: RunFilter): Numbered<RunView>[] {
      const mask = runId === undefined ? null : parseMask("run", runId);
      const { where, values } = joinConditions(
        [
          ["seq > @after", after],
          ["seq < @before", before],
          ["account = @account", accountOf(account)],
          ["status = @status", status],
          ["reference = @reference", reference],
          [begins("+"), prefix !== undefined],
          ["mask = @mask", mask ?? undefined],
          ["run_id = @runId", mask === null ? runId : undefined],
          // The index is by account first.
          ["account IN (SELECT id FROM names WHERE kind = 'account')", runId !== undefined && mask === null],
        ],
        { limit, ...prefixValues(prefix) },
      );
      return db
        .prepare<[typeof values], RunRow>(`SELECT * FROM runs WHERE ${where} ORDER BY seq DESC LIMIT @limit`)
        .all(values)
        .map(viewOf);
    },
  };
}
