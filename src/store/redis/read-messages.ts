import { fewestPhoneDigits, maskNumber, parseMask, phoneMatches } from "../../model/mask.ts";
import { shownMetadata } from "../../model/message.ts";
import type { MessageReading, RunReading } from "../reading.ts";
import type { MessageFilter, MessageView, Numbered, RunFilter, RunView, SeqBounds } from "../views.ts";
import { type RedisLink, runMulti, runPipeline } from "./client.ts";
import { rowsAtOnce } from "./event-rows.ts";
import { type Keys, maskKey, messageName, readSubjectName, runName, type SubjectName } from "./keys.ts";
import { readSubjectRow, rowJson, type StoredSubject } from "./rows.ts";

/** A message or run with its number, in the order of arrival. */
interface NumberedSubject {
  readonly seq: number;
  readonly account: string;
  readonly key: string;
  readonly row: StoredSubject;
}

/** Names with their numbers, from a sorted set. */
type NumberedNames = readonly { readonly name: SubjectName; readonly seq: number }[];

interface SubjectRange {
  /** Exclusive. */
  readonly after: number;
  readonly before: number;
  readonly limit: number;
}

/** Messages and runs, newest first. */
export function createReadSubjects(keys: Keys, link: RedisLink) {
  /** The stored subjects of these names, in the same order. */
  async function rows(names: NumberedNames): Promise<NumberedSubject[]> {
    if (names.length === 0) return [];
    const found = await link.run((redis) => redis.mget(names.map(({ name }) => keys.of(name))));
    return names.flatMap(({ name, seq }, index) => {
      const text = found[index] ?? null;
      if (text === null) return [];
      const { account, key } = readSubjectName(name);
      return [{ seq, account, key, row: readSubjectRow(rowJson(text)) }];
    });
  }

  /**
   * Members of the lists within the range, greatest number first, at most `limit` per list. Atomic: a subject that moves from
   * one list to another is in exactly one of them.
   */
  async function range(lists: readonly string[], { after, before, limit }: SubjectRange): Promise<NumberedNames> {
    const answers = await runMulti(link, (commands) => {
      for (const list of lists) {
        commands.zrange(keys.of(list), `(${before}`, `(${after}`, "BYSCORE", "REV", "LIMIT", 0, limit, "WITHSCORES");
      }
    });
    return (answers as string[][]).flatMap((found) => pairs(found)).sort((a, b) => b.seq - a.seq);
  }

  /** The names that have these numbers, in the same order. */
  async function namesOf(kind: "m" | "r", numbers: readonly number[]): Promise<NumberedNames> {
    if (numbers.length === 0) return [];
    const answers = await runMulti(link, (commands) => {
      for (const seq of numbers) for (const list of everyList(kind)) commands.zrange(keys.of(list), String(seq), String(seq), "BYSCORE");
    });
    return numbers.flatMap((seq, index) => (answers.slice(2 * index, 2 * index + 2) as string[][]).flat().map((name) => ({ name, seq })));
  }

  return {
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
    /** The same with a list of numbers, such as `phone:0100`. */
    async listNumbered(
      kind: "m" | "r",
      list: string,
      where: SubjectRange,
      matches: (subject: NumberedSubject) => boolean,
    ): Promise<NumberedSubject[]> {
      const found: NumberedSubject[] = [];
      for (let { before } = where; ; ) {
        const size = rowsAtOnce;
        const numbers = await link.run((redis) =>
          redis.zrange(keys.of(list), `(${before}`, `(${where.after}`, "BYSCORE", "REV", "LIMIT", 0, size),
        );
        found.push(...(await rows(await namesOf(kind, numbers.map(Number)))).filter(matches));
        if (numbers.length < size || found.length >= where.limit) return found.slice(0, where.limit);
        before = Number(numbers.at(-1));
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

const everyList = (kind: "m" | "r") => [`registered:${kind}`, `seen:${kind}`] as const;

function pairs(found: readonly string[]): { name: SubjectName; seq: number }[] {
  return Array.from({ length: found.length / 2 }, (_, index) => ({ name: found[2 * index] as string, seq: Number(found[2 * index + 1]) }));
}

/** Null: all subjects match. */
function matcherOf({ account, status, reference, prefix, errorCode, phone, seen, from, to }: Omit<MessageFilter, keyof SubjectRange>) {
  if ([account, status, reference, prefix, errorCode, phone, seen, from, to].every((criterion) => criterion === undefined)) return null;
  return ({ account: of, key, row }: NumberedSubject): boolean =>
    (account === undefined || of === account) &&
    (status === undefined || row.status === status) &&
    (errorCode === undefined || row.error === errorCode) &&
    (from === undefined || row.updatedAt >= from) &&
    (to === undefined || row.updatedAt < to) &&
    (reference === undefined || row.reference === reference) &&
    (prefix === undefined || row.reference?.startsWith(prefix) === true) &&
    (phone === undefined || phoneMatches(key, phone)) &&
    (seen !== false || row.registeredAt !== null);
}

/** Messages returned for one name. */
const mostFound = 100;
const newest = { after: 0, before: Number.MAX_SAFE_INTEGER, limit: mostFound };
const always = () => true;

export function createReadMessages(subjects: ReadSubjects) {
  /** The newest in an index. Index entries may be stale, so the row decides. */
  const indexed = (list: string, is: (row: NumberedSubject["row"]) => boolean) => subjects.list([list], newest, ({ row }) => is(row));

  return {
    bounds: () => subjects.bounds(everyList("m")),
    /** Newest first. */
    async list({ after, before, limit, ...filter }: MessageFilter): Promise<Numbered<MessageView>[]> {
      const { reference, phone, seen = false } = filter;
      const range = { after, before, limit };
      if (phone !== undefined) {
        const matches = matcherOf({ ...filter, seen }) ?? always;
        return (await subjects.listNumbered("m", `phone:${phone.slice(-fewestPhoneDigits)}`, range, matches)).map(messageViewOf);
      }
      const lists = reference !== undefined ? [`ref:m:${reference}`] : seen ? everyList("m") : ["registered:m"];
      return (await subjects.list(lists, range, matcherOf({ ...filter, seen: undefined }))).map(messageViewOf);
    },
    /** By wamid or masked wamid; by the service's id, masked or not, when none has it; else by reference. */
    async find(name: string): Promise<Numbered<MessageView>[]> {
      const names = (await subjects.accounts()).map((account) => messageName(account, name));
      const [mask, idMask] = [parseMask("wamid", name), parseMask("message", name)];
      let found = await subjects.named("m", names);
      if (found.length === 0 && mask !== null) {
        found = await subjects.listNumbered("m", maskKey("w", mask), newest, ({ key }) => maskNumber(key) === mask);
      }
      if (found.length === 0) found = await indexed(`sid:${name}`, ({ serviceId }) => serviceId === name);
      if (found.length === 0 && idMask !== null) {
        found = await indexed(maskKey("i", idMask), ({ serviceId }) => serviceId !== null && maskNumber(serviceId) === idMask);
      }
      if (found.length === 0) found = await indexed(`ref:m:${name}`, ({ reference }) => reference === name);
      return found.map(messageViewOf);
    },
  } satisfies MessageReading;
}

function messageViewOf({ seq, account, key, row }: NumberedSubject): Numbered<MessageView> {
  return {
    seq,
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

export function createReadRuns(subjects: ReadSubjects) {
  return {
    bounds: () => subjects.bounds(everyList("r")),
    /** Newest first. */
    async list({ runId, after, before, limit, ...filter }: RunFilter): Promise<Numbered<RunView>[]> {
      const matches = matcherOf(filter);
      const range = { after, before, limit };
      const mask = runId === undefined ? null : parseMask("run", runId);
      if (mask !== null) {
        const found = await subjects.listNumbered(
          "r",
          maskKey("r", mask),
          range,
          (run) => maskNumber(run.key) === mask && (matches?.(run) ?? true),
        );
        return found.map(runViewOf);
      }
      if (runId !== undefined) {
        const names = (await subjects.accounts()).map((name) => runName(name, runId));
        const found = (await subjects.named("r", names)).filter((run) => run.seq > after && run.seq < before && (matches?.(run) ?? true));
        return found.slice(0, limit).map(runViewOf);
      }
      const lists = filter.reference === undefined ? everyList("r") : [`ref:r:${filter.reference}`];
      return (await subjects.list(lists, range, matches)).map(runViewOf);
    },
  } satisfies RunReading;
}

function runViewOf({ seq, account, key, row }: NumberedSubject): Numbered<RunView> {
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
