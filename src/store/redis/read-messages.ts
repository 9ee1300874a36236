import { shownMetadata } from "../../model/message.ts";
import type { MessageReading, RunReading } from "../reading.ts";
import type { MessageFilter, MessageView, RunFilter, RunView, SeqBounds } from "../views.ts";
import { type RedisLink, runPipeline } from "./client.ts";
import { rowsAtOnce } from "./event-rows.ts";
import { type Keys, messageName, readSubjectName, runName, type SubjectName } from "./keys.ts";
import { readSubjectRow, rowJson, type StoredSubject } from "./rows.ts";

/** A message or run with its number, in the order of arrival. */
interface NumberedSubject {
  readonly seq: number;
  readonly account: string;
  readonly key: string;
  readonly row: StoredSubject;
}

/** Names with their numbers, from a sorted set. */
type Numbered = readonly { readonly name: SubjectName; readonly seq: number }[];

interface SubjectRange {
  /** Exclusive. */
  readonly after: number;
  readonly before: number;
  readonly limit: number;
}

/** Messages and runs, newest first. */
export function createReadSubjects(keys: Keys, link: RedisLink) {
  /** The stored subjects of these names, in the same order. */
  async function rows(names: Numbered): Promise<NumberedSubject[]> {
    if (names.length === 0) return [];
    const found = await link.run((redis) => redis.mget(names.map(({ name }) => keys.of(name))));
    return names.flatMap(({ name, seq }, index) => {
      const text = found[index] ?? null;
      if (text === null) return [];
      const { account, key } = readSubjectName(name);
      return [{ seq, account, key, row: readSubjectRow(rowJson(text)) }];
    });
  }

  /** Members of the lists within the range, greatest number first, at most `limit` per list. */
  async function range(lists: readonly string[], { after, before, limit }: SubjectRange): Promise<Numbered> {
    const answers = await runPipeline(link, (commands) => {
      for (const list of lists) {
        commands.zrange(keys.of(list), `(${before}`, `(${after}`, "BYSCORE", "REV", "LIMIT", 0, limit, "WITHSCORES");
      }
    });
    return (answers as string[][]).flatMap((found) => pairs(found)).sort((a, b) => b.seq - a.seq);
  }

  return {
    rows,
    async bounds(lists: readonly string[]): Promise<SeqBounds> {
      const answers = await runPipeline(link, (commands) => {
        for (const list of lists) commands.zrange(keys.of(list), "0", "0", "WITHSCORES").zrange(keys.of(list), "-1", "-1", "WITHSCORES");
      });
      const seqs = (answers as string[][]).flatMap((found) => pairs(found).map(({ seq }) => seq));
      return seqs.length === 0 ? null : { oldest: Math.min(...seqs), newest: Math.max(...seqs) };
    },
    /** Subjects of the lists that match (null: all), up to the limit. */
    async list(
      lists: readonly string[],
      where: SubjectRange,
      matches: ((subject: NumberedSubject) => boolean) | null,
    ): Promise<NumberedSubject[]> {
      const { after, limit } = where;
      // Without a filter a page needs no further rows.
      const size = matches === null ? Math.min(limit, rowsAtOnce) : rowsAtOnce;
      const found: NumberedSubject[] = [];
      for (let before = where.before; ; ) {
        const names = (await range(lists, { after, before, limit: size })).slice(0, size);
        found.push(...(await rows(names)).filter((subject) => matches?.(subject) ?? true));
        const last = names.at(-1);
        if (last === undefined || found.length >= limit) return found.slice(0, limit);
        before = last.seq;
      }
    },
    /** Subjects of these names, registered or only seen; `kind` as in the lists' names. */
    async named(kind: "m" | "r", names: readonly SubjectName[]): Promise<NumberedSubject[]> {
      if (names.length === 0) return [];
      const scores = (await runPipeline(link, (commands) => {
        for (const name of names) commands.zscore(keys.of(`registered:${kind}`), name).zscore(keys.of(`seen:${kind}`), name);
      })) as (string | null)[];
      const numbered = names.map((name, index) => ({ name, seq: Number(scores[2 * index] ?? scores[2 * index + 1] ?? 0) }));
      return (await rows(numbered)).sort((a, b) => b.seq - a.seq);
    },
    accounts: () => link.run((redis) => redis.smembers(`${keys.base}accounts`)),
  };
}

type ReadSubjects = ReturnType<typeof createReadSubjects>;

function pairs(found: readonly string[]): { name: SubjectName; seq: number }[] {
  return Array.from({ length: found.length / 2 }, (_, index) => ({ name: found[2 * index] as string, seq: Number(found[2 * index + 1]) }));
}

/** Null: all subjects match. */
function matcherOf({ account, status, reference }: Pick<MessageFilter, "account" | "status" | "reference">) {
  if (account === undefined && status === undefined && reference === undefined) return null;
  return ({ account: of, row }: NumberedSubject): boolean =>
    (account === undefined || of === account) &&
    (status === undefined || row.status === status) &&
    (reference === undefined || row.reference === reference);
}

/** Messages returned for one name. */
const mostFound = 100;
const registeredMessages = ["registered:m"];

export function createReadMessages(subjects: ReadSubjects) {
  /** The newest in an index. Index entries may be stale, so the row decides. */
  const indexed = (list: string, is: (row: NumberedSubject["row"]) => boolean) =>
    subjects.list([list], { after: 0, before: Number.MAX_SAFE_INTEGER, limit: mostFound }, ({ row }) => is(row));

  return {
    bounds: () => subjects.bounds(registeredMessages),
    /** Registered messages, newest first. */
    async list({ account, status, reference, after, before, limit }: MessageFilter): Promise<(MessageView & { readonly seq: number })[]> {
      const matches = matcherOf({ account, status, reference });
      const lists = reference === undefined ? registeredMessages : [`ref:m:${reference}`];
      const found = await subjects.list(lists, { after, before, limit }, matches);
      return found.map((subject) => ({ seq: subject.seq, ...messageViewOf(subject) }));
    },
    /** By wamid; by the service's id when none has it; else by reference. */
    async find(name: string): Promise<MessageView[]> {
      const names = (await subjects.accounts()).map((account) => messageName(account, name));
      let found = await subjects.named("m", names);
      if (found.length === 0) found = await indexed(`sid:${name}`, ({ serviceId }) => serviceId === name);
      if (found.length === 0) found = await indexed(`ref:m:${name}`, ({ reference }) => reference === name);
      return found.map(messageViewOf);
    },
  } satisfies MessageReading;
}

function messageViewOf({ account, key, row }: NumberedSubject): MessageView {
  return {
    account,
    wamid: key,
    id: row.serviceId,
    conversationId: row.conversationId,
    reference: row.reference,
    metadata: shownMetadata(row.metadata),
    status: row.status,
    errorCode: row.error,
    times: row.times,
    sentAt: row.sentAt,
    registeredAt: row.registeredAt,
    updatedAt: row.updatedAt,
  };
}

const allRuns = ["registered:r", "seen:r"];

export function createReadRuns(subjects: ReadSubjects) {
  return {
    bounds: () => subjects.bounds(allRuns),
    /** Newest first. */
    async list({ account, status, reference, runId, after, before, limit }: RunFilter): Promise<(RunView & { readonly seq: number })[]> {
      const matches = matcherOf({ account, status, reference });
      if (runId !== undefined) {
        const names = (await subjects.accounts()).map((name) => runName(name, runId));
        const found = (await subjects.named("r", names)).filter((run) => run.seq > after && run.seq < before && (matches?.(run) ?? true));
        return found.slice(0, limit).map(runViewOf);
      }
      const lists = reference === undefined ? allRuns : [`ref:r:${reference}`];
      return (await subjects.list(lists, { after, before, limit }, matches)).map(runViewOf);
    },
  } satisfies RunReading;
}

function runViewOf({ seq, account, key, row }: NumberedSubject): RunView & { readonly seq: number } {
  return {
    seq,
    account,
    runId: key,
    reference: row.reference,
    metadata: shownMetadata(row.metadata),
    status: row.status,
    error: row.error,
    times: row.times,
    registeredAt: row.registeredAt,
    updatedAt: row.updatedAt,
  };
}
