import type { MessageView, RunView } from "../model/answers/subjects.ts";
import type { SearchHitView } from "../model/endpoints/read.ts";
import { fewestPhoneDigits, isUserId, parseMask, wholeContact } from "../model/mask.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { MessageQuery, OfAccounts, RunQuery } from "../model/queries.ts";
import type { EventFilter } from "../store/read/events.ts";
import type { StoreReading } from "../store/read/reading.ts";
import type { Numbered } from "../store/read/subjects.ts";
import { mergeWalks, readIndexed, type Walked, walkBack } from "./walk-back.ts";

/**
 * Most messages or runs of one name whose events are read by their index. Events about more are
 * found by reading all events.
 */
export const mostIndexed = 1_000;
/** Most runs of one id: one in each account. */
const mostAccounts = 1_000;

/**
 * A text that can be a user id, a phone number or the end of one, as stores take it; null for other
 * text.
 */
function contactOf(text: string, wholeOnly: boolean): string | null {
  if (isUserId(text)) return wholeContact(text);
  // 00 is how many countries dial +, and no country code begins so.
  const digits = text.replace(/[\s().+-]/g, "").replace(/^00(?=[1-9]\d{6})/, "");
  if (!/^\d+$/.test(digits) || digits.length < fewestPhoneDigits || digits.length > 15) return null;
  return wholeOnly ? wholeContact(digits) : digits;
}

/** The seqs of an event's seq or id, masked or not. */
export async function seqsNamed(
  { getEvent, seqsOf }: StoreReading,
  name: string,
): Promise<readonly number[]> {
  if (/^[1-9]\d{0,14}$/.test(name) && (await getEvent(Number(name))) !== null)
    return [Number(name)];
  return seqsOf(name);
}

/** Also the seq of the event of a delivery. */
export async function seqsBehind(read: StoreReading, name: string): Promise<readonly number[]> {
  const delivery = await read.findDelivery(name);
  return delivery === null ? seqsNamed(read, name) : [delivery.event];
}

/** The wamid of a masked wamid; any other text as it is. */
async function wamidOf({ findMessages }: StoreReading, text: string): Promise<string> {
  const [found] = parseMask("wamid", text) === null ? [] : await findMessages(text);
  return found?.wamid ?? text;
}

interface EventNames {
  readonly wamid?: string | undefined;
  /** A wamid or run id. */
  readonly subject?: string | undefined;
  readonly q?: string | undefined;
  readonly wholeOnly: boolean;
}

export async function resolveEvents(
  read: StoreReading,
  { wamid, subject, q, wholeOnly }: EventNames,
  most: number,
): Promise<Pick<EventFilter, "wamid" | "about">[]> {
  const all = [];
  if (wamid !== undefined) all.push({ wamid: await wamidOf(read, wamid) });
  if (subject !== undefined) all.push(await eventsOfSubject(read, subject));
  if (q !== undefined) all.push(await eventsNamed(read, q, wholeOnly, most));
  return all;
}

async function eventsOfSubject(
  read: StoreReading,
  key: string,
): Promise<Pick<EventFilter, "wamid" | "about">> {
  const runs = await read.listRuns({ runId: key, limit: mostAccounts });
  if (runs.length === 0) return { wamid: await wamidOf(read, key) };
  return {
    about: {
      seqs: [],
      subjects: runs.map(({ account, runId }) => ({ type: "run", account, key: runId })),
    },
  };
}

async function eventsNamed(
  read: StoreReading,
  q: string,
  wholeOnly: boolean,
  most: number,
): Promise<Pick<EventFilter, "wamid" | "about">> {
  if (q.startsWith("wamid.") || parseMask("wamid", q) !== null)
    return { wamid: await wamidOf(read, q) };
  const seqs = await seqsBehind(read, q);
  const digits = contactOf(q, wholeOnly);
  const limit = most + 1;
  const [messages, runs, ofPhone] = await Promise.all([
    messagesNamed(read, q, limit),
    runsNamed(read, q, limit),
    digits === null ? [] : read.listMessages({ phone: digits, seen: true, limit }),
  ]);
  const isCommon = messages.length > most || runs.length > most;
  const isCommonPhone = ofPhone.length > most;
  const subjects = [
    ...(isCommon ? [] : [...messages, ...runs]),
    ...(isCommonPhone ? [] : ofPhone),
  ].map(subjectOf);
  const reference = isCommon ? q : undefined;
  return {
    about: { seqs, subjects, reference, phone: isCommonPhone ? (digits ?? undefined) : undefined },
  };
}

/** By wamid or service's id, masked or not; else by reference. */
async function messagesNamed(
  { findMessages, listMessages }: StoreReading,
  name: string,
  limit: number,
): Promise<readonly Numbered<MessageView>[]> {
  const found = await findMessages(name);
  const isId = found.length === 0 || found.some(({ reference }) => reference !== name);
  return isId ? found : listMessages({ reference: name, limit });
}

export const subjectOf = (subject: MessageView | RunView) =>
  "wamid" in subject
    ? ({ type: "message", account: subject.account, key: subject.wamid } as const)
    : ({ type: "run", account: subject.account, key: subject.runId } as const);

/** By run id, masked or not; else by reference. */
export async function runsNamed(
  { listRuns }: StoreReading,
  name: string,
  limit: number,
  { account, accounts }: OfAccounts = {},
): Promise<readonly Numbered<RunView>[]> {
  const all = { account, accounts, limit };
  const byId = await listRuns({ ...all, runId: name });
  return byId.length > 0 ? byId : listRuns({ ...all, reference: name });
}

export function createTrackedReading(read: StoreReading) {
  const walk = walksOver(read);

  return {
    async listMessages({ q, phone: end, ...query }: MessageQuery, wholeOnly: boolean) {
      const { limit } = query;
      const phone = end !== undefined && wholeOnly ? wholeContact(end) : end;
      const filter = { ...query, phone };
      // Few have the same reference, and references are indexed.
      if (q === undefined && query.reference !== undefined)
        return pageOf([await readIndexed(read.listMessages, filter)], limit);
      if (q === undefined)
        return pageOf([await walk.messages({ ...filter, seen: phone !== undefined })], limit);
      const named = await read.findMessages(q, {
        account: query.account,
        accounts: query.accounts,
      });
      if (named.some(({ reference }) => reference !== q))
        return pageOf(
          [
            await readIndexed(read.listMessages, {
              ...filter,
              seen: true,
              only: named.map(({ seq }) => seq),
            }),
          ],
          limit,
        );
      const digits = joinDigits(contactOf(q, wholeOnly), phone);
      return pageOf(
        await Promise.all([
          walk.messages({
            ...filter,
            prefix: q,
            ...(wholeOnly ? { reference: query.reference ?? q } : {}),
            seen: true,
          }),
          ...(digits === null ? [] : [walk.messages({ ...filter, phone: digits, seen: true })]),
        ]),
        limit,
      );
    },
    findMessages: read.findMessages,
    async listRuns({ q, ...filter }: RunQuery, wholeOnly: boolean) {
      const { limit, reference, runId } = filter;
      const isNamed = reference !== undefined || runId !== undefined;
      if (q === undefined)
        return pageOf(
          [await (isNamed ? readIndexed(read.listRuns, filter) : walk.runs(filter))],
          limit,
        );
      const byId = async (page: typeof filter) =>
        (await read.listRuns({ ...page, runId: q })).filter(
          (run) => run.runId === (runId ?? run.runId),
        );
      const isId = (await read.listRuns({ runId: q, limit: 1 })).length > 0;
      const found = isId
        ? readIndexed(byId, filter)
        : walk.runs({ ...filter, prefix: q, ...(wholeOnly ? { reference: reference ?? q } : {}) });
      return pageOf([await found], limit);
    },
  };
}

function walksOver(read: StoreReading) {
  const over =
    <Filter extends { readonly limit: number; readonly before?: number | undefined }, T>(
      list: (filter: Filter) => MaybePromise<readonly T[]>,
      isIndexed: (filter: Filter) => boolean = () => false,
    ) =>
    (filter: Filter, longestMs?: number): Promise<Walked<T>> =>
      walkBack({
        ...filter,
        longestMs,
        isAside: read.isAside?.(),
        isIndexed: isIndexed(filter),
        bounds: read.subjectBounds,
        read: (after, before, limit) => list({ ...filter, after, before, limit }),
      });
  return {
    messages: over(
      read.listMessages,
      ({ phone, errorCode }) => phone !== undefined || errorCode !== undefined,
    ),
    runs: over(read.listRuns),
  };
}

function pageOf<V extends { readonly seq: number }>(
  walks: readonly Walked<V>[],
  limit: number,
): { data: Omit<V, "seq">[]; next: number | null } {
  const { found, next } = mergeWalks(walks, limit);
  return { data: found.map(({ seq: _, ...view }) => view), next };
}

/**
 * The longer of two ends of a phone number; null when there is none, or the number cannot end with
 * both.
 */
function joinDigits(digits: string | null, phone: string | undefined): string | null {
  if (digits === null || phone === undefined) return digits;
  if (digits.endsWith(phone)) return digits;
  return phone.endsWith(digits) ? phone : null;
}

/**
 * Hits of one search, and how long it looks for references that begin with the text: the search box
 * waits for it.
 */
const mostHits = 20;
const longestMs = 100;

export function createSearching(read: StoreReading) {
  const walk = walksOver(read);

  async function eventHit(seq: number): Promise<SearchHitView | null> {
    const event = await read.getEvent(seq);
    if (event === null) return null;
    const { id, account, event: kind, status, disposition, receivedAt: at } = event;
    return {
      kind: "event",
      id: id ?? String(seq),
      seq,
      account,
      label: kind ?? disposition,
      status: status ?? disposition,
      at,
    };
  }

  async function deliveryHit(name: string): Promise<SearchHitView | null> {
    const delivery = await read.findDelivery(name);
    const event = delivery === null ? null : await read.getEvent(delivery.event);
    if (delivery === null || event === null) return null;
    const { id, event: seq, route, state, settledAt } = delivery;
    return {
      kind: "delivery",
      id,
      seq,
      account: event.account,
      label: route,
      status: state,
      at: settledAt ?? event.receivedAt,
    };
  }

  return async (q: string, wholeOnly: boolean, accounts?: readonly string[]) => {
    const isVisible = ({ account }: { readonly account: string }) =>
      accounts?.includes(account) ?? true;
    const [seqs, delivery, messages, runs] = await Promise.all([
      seqsNamed(read, q),
      deliveryHit(q),
      read.findMessages(q, { accounts }),
      runsNamed(read, q, mostHits + 1, { accounts }),
    ]);
    const events = (await Promise.all(seqs.slice(0, mostHits + 1).map(eventHit)))
      .filter((hit) => hit !== null)
      .filter(isVisible);
    const deliveries = [delivery].filter((hit) => hit !== null).filter(isVisible);
    const named = [...events, ...deliveries, ...[...messages, ...runs].map(subjectHit)];
    // An id names one thing. A reference or number may be the beginning or end of others.
    const isId =
      deliveries.length > 0 ||
      messages.some(({ reference }) => reference !== q) ||
      runs.some(({ reference }) => reference !== q);
    if (isId || (events.length > 0 && !/^\d+$/.test(q))) return hitsOf(named, false);
    const digits = contactOf(q, wholeOnly);
    const all = { accounts, limit: mostHits + 1, seen: true };
    const walks = await Promise.all<Walked<MessageView | RunView>>([
      ...(digits === null ? [] : [walk.messages({ ...all, phone: digits }, longestMs)]),
      ...(wholeOnly
        ? []
        : [
            walk.messages({ ...all, prefix: q }, longestMs),
            walk.runs({ ...all, prefix: q }, longestMs),
          ]),
    ]);
    const others = walks.flatMap(({ found }) => found.map(subjectHit));
    const isCut = walks.some(({ reached, found }) => reached !== null && found.length < all.limit);
    return hitsOf([...named, ...others], isCut);
  };
}

function subjectHit(subject: MessageView | RunView): SearchHitView {
  const { reference, status, updatedAt: at } = subject;
  const { type: kind, account, key: id } = subjectOf(subject);
  return { kind, id, seq: null, account, label: reference ?? "", status, at };
}

function hitsOf(
  hits: readonly SearchHitView[],
  isCut: boolean,
): { data: SearchHitView[]; more: boolean } {
  const all = [
    ...new Map(hits.map((hit) => [JSON.stringify([hit.kind, hit.id, hit.account]), hit])).values(),
  ];
  return { data: all.slice(0, mostHits), more: isCut || all.length > mostHits };
}
