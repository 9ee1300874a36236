import type { MessageView, RunView } from "../../model/answers/subjects.ts";
import { bodyLimits, parseWithin } from "../../model/json.ts";
import {
  contactMatches,
  fewestPhoneDigits,
  maskNumber,
  parseMask,
  phoneInWamid,
} from "../../model/mask.ts";
import type { MessageQuery, OfAccounts, RunQuery } from "../../model/queries.ts";
import { never, subjects, whereFailed } from "../schema/tables.ts";
import { rows, type Work } from "../sql/ops.ts";
import { allOf, as, pick, type RowFrom, raw, type Sql, select, sql } from "../sql/sql.ts";
import { keyOf, keyOfRun } from "../work/subject-rows.ts";
import {
  beginsWith,
  type Conditions,
  conditionsOf,
  isBetween,
  readMatching,
  seqsFrom,
} from "./pages.ts";

type SubjectFields = Omit<RunQuery, "runId" | "q" | "before" | "limit">;

type MessageFields = Omit<MessageQuery, "phone" | "q" | "before" | "limit">;

interface SubjectFilter extends SubjectFields {
  readonly after?: number | undefined;
  readonly before?: number | undefined;
  readonly limit: number;
}

interface MessageFilter extends SubjectFilter, MessageFields {
  readonly phone?: string | undefined;
  readonly prefix?: string | undefined;
  readonly only?: readonly number[];
  readonly seen?: boolean | undefined;
}

interface RunFilter extends SubjectFilter {
  readonly runId?: string | undefined;
  readonly prefix?: string | undefined;
}

export type Numbered<V> = V & { readonly seq: number };

const s = as(subjects, "s");
const shown = {
  ...pick(s, "seq", "account", "reference", "metadata", "status", "times"),
  registeredAt: s.registered_at,
  updatedAt: s.updated_at,
};
const message = select({
  ...shown,
  wamid: s.name,
  id: s.service_id,
  conversationId: s.conversation_id,
  errorCode: s.error,
  sentAt: s.registered_sent_at,
});
const run = select({ ...shown, runId: s.name, error: s.error });
type Message = RowFrom<typeof message>;

const isMessage = raw("s.type = 0");
/** Without a status, an inbound message. */
const isListed = raw("(s.registered_at IS NOT NULL OR s.status IS NOT NULL)");
const isFailed = raw(`s.${whereFailed}`);
/** SQLite would use an index that it has to sort for one page. */
const plus = raw("+", "");
const fewReferences = 1_000;
const mostFound = 100;

function hasMask(mask: number): Sql {
  const [first, last] = [Buffer.alloc(16, 0), Buffer.alloc(16, 0xff)].map((key) => {
    key.writeUIntBE(mask, 0, 6);
    return key;
  }) as [Buffer, Buffer];
  return sql`s.key >= ${first} AND s.key <= ${last}`;
}

const accountConditions: Conditions<OfAccounts> = {
  account: (account) => sql`${plus}s.account = ${account}`,
  accounts: (accounts) => sql`${plus}s.account IN ${accounts}`,
};
const subjectConditions: Conditions<SubjectFields> = {
  ...accountConditions,
  status: (status) => sql`s.status = ${status}`,
  reference: (reference) => sql`s.reference = ${reference}`,
};
const messageConditions: Conditions<MessageFields> = {
  ...subjectConditions,
  status: (status) => (status === "failed" ? isFailed : sql`s.status = ${status}`),
  errorCode: (code) => sql`s.error = ${code}`,
  from: (time) => sql`s.updated_at >= ${time}`,
  to: (time) => sql`s.updated_at < ${time}`,
};

const newest = (where: Sql, limit: number): Sql =>
  sql`FROM subjects s WHERE ${where} ORDER BY s.seq DESC LIMIT ${limit}`;

const sorted = <Row extends { readonly seq: number }>(found: readonly Row[]): Row[] =>
  found.toSorted((a, b) => b.seq - a.seq);

/** A row that was changed by hand must not fail the lists that it is in. */
function metadataIn(text: string): Record<string, unknown> {
  const found = parseWithin(text, bodyLimits);
  return "fault" in found
    ? { fault: `stored metadata ${found.fault}` }
    : (found.value as Record<string, unknown>);
}

const viewOf = <Row extends Pick<Message, "metadata" | "times">>({
  metadata,
  times,
  ...row
}: Row) => ({
  ...row,
  metadata: metadata === null ? null : metadataIn(metadata),
  times: JSON.parse(times) as Record<string, number>,
});

const messageOf = (row: Message): Numbered<MessageView> => ({
  ...viewOf(row),
  phone: phoneInWamid(row.wamid),
});

export function* listMessages(filter: MessageFilter): Work<Numbered<MessageView>[]> {
  const { prefix, phone, only, seen, after = 0, before = never, limit } = filter;
  const referred = prefix === undefined ? null : yield* rareReferences(prefix);
  if (referred?.length === 0) return [];
  const where = (end: number): Sql =>
    allOf(
      isMessage,
      isBetween(s.seq, after, end),
      conditionsOf(messageConditions, filter),
      seen === true ? undefined : isListed,
      ...[referred, only].map((seqs) => (seqs ? sql`s.seq IN ${seqs}` : undefined)),
      prefix === undefined || referred !== null
        ? undefined
        : beginsWith(sql`${plus}s.reference`, prefix),
      phone === undefined ? undefined : sql`s.phone = ${Number(phone.slice(-fewestPhoneDigits))}`,
    );
  const fits =
    phone === undefined ? undefined : ({ wamid }: Message) => contactMatches(wamid, phone);
  return (yield* readMatching(
    before,
    limit,
    (end, most) => rows(message`${newest(where(end), most)}`),
    fits,
  )).map(messageOf);
}

function* rareReferences(prefix: string): Work<number[] | null> {
  const found = yield* seqsFrom(
    sql`subjects x WHERE ${beginsWith(sql`x.reference`, prefix)} LIMIT ${fewReferences + 1}`,
  );
  return found.length > fewReferences ? null : found;
}

/** `name`: a wamid or the service's id, masked or not, or a reference. Newest first. */
export function* findMessages(name: string, of: OfAccounts = {}): Work<Numbered<MessageView>[]> {
  const isOf = conditionsOf(accountConditions, of);
  // They are few, and for an order PostgreSQL might read all rows in it.
  const named = (is: Sql) => rows(message`FROM subjects s WHERE ${allOf(is, isOf)}`);
  const [mask, idMask] = [parseMask("wamid", name), parseMask("message", name)];
  let found = yield* named(sql`s.key = ${keyOf(name)}`);
  if (found.length === 0 && mask !== null) found = yield* named(allOf(isMessage, hasMask(mask)));
  if (found.length === 0)
    found = yield* named(sql`s.service_mask = ${maskNumber(name)} AND s.service_id = ${name}`);
  if (found.length === 0 && idMask !== null) found = yield* named(sql`s.service_mask = ${idMask}`);
  if (found.length === 0)
    found = yield* rows(
      message`${newest(allOf(isMessage, sql`s.reference = ${name}`, isOf), mostFound)}`,
    );
  return sorted(found).slice(0, mostFound).map(messageOf);
}

export function* listRuns(filter: RunFilter): Work<Numbered<RunView>[]> {
  const { runId, reference, prefix, after = 0, before = never, limit } = filter;
  const isNamed = runId !== undefined || reference !== undefined;
  const where = allOf(
    sql`${isNamed ? plus : undefined}s.type = 1`,
    conditionsOf(subjectConditions, filter),
    prefix === undefined ? undefined : beginsWith(sql`${plus}s.reference`, prefix),
  );
  if (runId === undefined)
    return (yield* rows(run`${newest(allOf(isBetween(s.seq, after, before), where), limit)}`)).map(
      viewOf,
    );
  const mask = parseMask("run", runId);
  const found = yield* rows(
    run`FROM subjects s WHERE ${mask === null ? sql`s.key = ${keyOfRun(runId)}` : hasMask(mask)} AND ${where}`,
  );
  return sorted(found.filter(({ seq }) => seq > after && seq < before))
    .slice(0, limit)
    .map(viewOf);
}
