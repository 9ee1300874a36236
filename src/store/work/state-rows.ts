import { randomUUID } from "node:crypto";
import { type AccountNote, type AccountWatch, withNote } from "../../model/account-watch.ts";
import { type AlarmName, alarmKey, type StoredAlarm } from "../../model/attention.ts";
import type { Failing, OpenNote, RouteNotes, RouteStop, Settlement } from "../../model/delivery.ts";
import type { EventId } from "../../model/ids.ts";
import type { LastPass } from "../../model/poll.ts";
import type { SourceNote } from "../port.ts";
import { type RowOf, state } from "../schema/tables.ts";
import {
  change,
  compareTexts,
  find,
  insert,
  look,
  rowsBy,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import {
  addTo,
  allOf,
  byName,
  create,
  createMissing,
  list,
  put,
  take,
  timeName,
  value,
  values,
} from "./state.ts";

interface StoredCursor {
  readonly name: string;
  readonly seq: number;
  readonly movedAt: number;
}

const alarmPrefix = "alarm/";

/** Those in force, and those whose end is not reported yet. */
const alarms = () => allOf<StoredAlarm>(alarmPrefix);

/** Null: its end was reported. */
const keepAlarm = (name: AlarmName, alarm: StoredAlarm | null) =>
  put(`${alarmPrefix}${alarmKey(name)}`, alarm);

const claimKey = (key: string): string => `claim/${key}`;

/** True for the first call with a key. Retention frees the key some time after `until`. */
const claimOnce = (key: string, until: number): Work<boolean> =>
  createMissing(claimKey(key), true, until);

function* isClaimed(key: string): Work<boolean> {
  return (yield* value(claimKey(key))) !== null;
}

type Position = Omit<StoredCursor, "name">;

/** Above this, the one that has not moved for longest is deleted. */
const mostCursors = 1_000;

const cursorPrefix = "cursor/";
const cursorKey = (name: string): string => `${cursorPrefix}${name}`;

/** Null: unknown listener. */
function* findCursor(name: string): Work<number | null> {
  return (yield* value<Position>(cursorKey(name)))?.seq ?? null;
}

function* listCursors(): Work<readonly StoredCursor[]> {
  const cursors = (yield* list<Position>(cursorPrefix)).map(({ name, value }) => ({
    name,
    ...value,
  }));
  return cursors.sort((a, b) => b.movedAt - a.movedAt);
}

/** Never moves back. Returns the current position. */
export function* moveCursor(name: string, seq: number, at: number): Work<number> {
  const known = yield* value<Position>(cursorKey(name), "update");
  const position = { seq: Math.max(seq, known?.seq ?? seq), movedAt: at };
  if (known !== null) yield* put(cursorKey(name), position);
  else {
    const oldest = (yield* listCursors()).slice(mostCursors - 1);
    for (const cursor of oldest) yield* put(cursorKey(cursor.name), null);
    yield* create(cursorKey(name), position);
  }
  return position.seq;
}

const handshakePrefix = "handshake/";

/** By the fingerprint of URL and token. */
export const handshakes = () => byName<number>(handshakePrefix);

const noteHandshake = (fingerprint: string, at: number) =>
  put(`${handshakePrefix}${fingerprint}`, at);

const passPrefix = "reconciled/";

const notePass = (pass: LastPass) => put(`${passPrefix}${pass.account}`, pass);

const lastPass = (account: string) => value<LastPass>(`${passPrefix}${account}`);

const lastPasses = () => allOf<LastPass>(passPrefix);

/** The random id of the stored data. Null: no relay has opened the store yet. */
export const dataId = (): Work<string | null> => value<string>("store/id");

const probe = (at: number) => put("store/probed", at);

/** The last scheduled backup into `folder` failed at `since`. */
export interface FailedBackup {
  readonly folder: string;
  readonly since: number;
  readonly text: string;
}

const backupKey = "backup/failed";

const failedBackup = () => value<FailedBackup>(backupKey);

const noteBackup = (failed: FailedBackup | null) => put(backupKey, failed);

const sourcePrefix = "source/";
const numberKeptMs = 90 * 86_400_000;

export function* sourceNotes(): Work<readonly SourceNote[]> {
  return (yield* list<Pick<SourceNote, "at" | "account">>(sourcePrefix)).map(({ name, value }) => {
    const slash = name.indexOf("/");
    return { source: name.slice(0, slash), number: name.slice(slash + 1) || null, ...value };
  });
}

function* noteSource({ source, number, account, at }: SourceNote): Work<void> {
  yield* put(
    `${sourcePrefix}${source}/${number ?? ""}`,
    { at, account },
    number === null ? null : at + numberKeptMs,
  );
}

const watchPrefix = "watch/";
const watchKeptMs = 90 * 86_400_000;

/** Adds what a process saw until `at` to the row of each account. */
export function* noteWatched(
  notes: readonly AccountNote[],
  at: number,
  windowMs: number,
): Work<void> {
  const sorted = notes.toSorted((a, b) => compareTexts(a.account, b.account));
  const keys = sorted.map(({ account }) => watchPrefix + account);
  const known = yield* values<AccountWatch>(keys, "update");
  for (const [place, key] of keys.entries()) {
    const before = known[place] ?? null;
    const write = before === null ? create : put;
    yield* write(
      key,
      withNote(before, sorted[place] as AccountNote, at, windowMs),
      at + watchKeptMs,
    );
  }
}

/** By account. */
const watched = () => byName<AccountWatch>(watchPrefix);

export type PurgedTable = "events" | "deliveries" | "history";

const purgedKey = (table: PurgedTable): string => `purged/${table}`;

/** By receipt of events, by settlement of deliveries. Null: nothing was deleted. */
export const purgedBefore = (table: PurgedTable): Work<number | null> =>
  value<number>(purgedKey(table));

/** It only grows: a clock that is set back brings nothing back. */
export function* notePurged(table: PurgedTable, before: number): Work<void> {
  const known = yield* value<number>(purgedKey(table), "update");
  if (known === null || known < before) yield* put(purgedKey(table), before);
}

export interface Copy {
  readonly id: string;
  readonly from: string;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  /** Of the process that goes on with it. */
  readonly run: string;
  /** Absent until it is finished. */
  readonly lastEvent?: number;
}

export const copyKey = "store/copy";

export function* lastCopied(): Work<number> {
  return (yield* value<Copy>(copyKey))?.lastEvent ?? 0;
}

/** Longer than a month, whose quota is computed from them. */
const callsKeptMs = 62 * 86_400_000;

export interface RecentCall {
  readonly operation: "messages" | "runs" | "reads";
  readonly at: number;
}

type ServiceCalls = { readonly polls: number; readonly others: number };

/** Longer than a call can count against a cap of its minute. */
const recentKeptMs = 180_000;

const daysOf = (account: string): string => `calls/${account}/`;
const recentOf = (account: string): string => `called/${account}/`;

function* serviceCalls(
  account: string,
  from: number,
): Work<readonly (ServiceCalls & { readonly day: number })[]> {
  const days = yield* list<ServiceCalls>(daysOf(account), timeName(from));
  return days.map(({ name, value: { polls, others } }) => ({ day: Number(name), polls, others }));
}

export interface CountedCalls {
  readonly account: string;
  readonly day: number;
  readonly calls: ServiceCalls;
}

/** Counted together, because all processes that call for an account write one row. */
export function* addServiceCalls(batch: readonly CountedCalls[]): Work<readonly null[]> {
  const sums = new Map<string, ServiceCalls & { readonly day: number }>();
  for (const { account, day, calls } of batch) {
    const key = daysOf(account) + timeName(day);
    const { polls = 0, others = 0 } = sums.get(key) ?? {};
    sums.set(key, { day, polls: polls + calls.polls, others: others + calls.others });
  }
  for (const [key, { day, ...calls }] of [...sums].sort(([a], [b]) => compareTexts(a, b)))
    yield* addTo(key, calls, day + callsKeptMs);
  return batch.map(() => null);
}

/** And some that are older than `recentKeptMs`. */
export const recentCalls = (account: string): Work<readonly RecentCall[]> =>
  allOf<RecentCall>(recentOf(account));

export function* noteCall(account: string, call: RecentCall): Work<void> {
  yield* create(
    `${recentOf(account)}${timeName(call.at)}/${randomUUID()}`,
    call,
    call.at + recentKeptMs,
  );
}

/** The same bytes get the same id within `forMs`. */
export interface Naming {
  readonly request: string;
  readonly id: EventId;
  readonly now: number;
  readonly forMs: number;
}

type StateRow = RowOf<typeof state>;

const own = look(state, ["key"], ["key", "value", "until"], { lock: "update" });
const renamed = change(state, ["value", "until"], { count: ["version"] });

/** Of two that name a request at once, one fails, and is repeated. */
export function* nameRequests(batch: readonly Naming[]): Work<readonly EventId[]> {
  const keys = [...new Set(batch.map(requestKey))].sort();
  const [rows] = yield* together([find(own, keys, (key) => [key])]);
  const stored = rowsBy(rows, ({ key }) => key);
  const named = new Map<string, Pick<StateRow, "key" | "value" | "until">>(stored);
  const ids = batch.map((naming) => {
    const { id, now, forMs } = naming;
    const key = requestKey(naming);
    const until = named.get(key)?.until ?? 0;
    // A later time was written under a wrong clock.
    if (until > now && until <= now + forMs)
      return JSON.parse((named.get(key) as StateRow).value) as EventId;
    named.set(key, { key, value: JSON.stringify(id), until: now + forMs });
    return id;
  });
  const changed = keys.flatMap((key) => {
    const row = named.get(key);
    return row === undefined || row === stored.get(key) ? [] : [row];
  });
  yield* together([
    insert(
      state,
      changed.filter(({ key }) => !stored.has(key)),
      (row) => ({ ...row, version: 1 }),
    ),
    update(
      renamed,
      changed.filter(({ key }) => stored.has(key)),
    ),
  ]);
  return ids;
}

const requestKey = ({ request }: Naming): string => `request/${request}`;

/*
 * Kept for whoever delivers the route next: a stop (410), a pause that the destination asked for
 * (429), an open breaker, and since when it has been failing.
 */

type Pause = NonNullable<Settlement["pause"]>;

const stopKey = (route: string): string => `stop/${route}`;
const pauseKey = (route: string): string => `pause/${route}`;
const failingKey = (route: string): string => `failing/${route}`;
const breakerKey = (route: string): string => `breaker/${route}`;

export function* noteOfRoute({ route, at, stop, pause, opened, failing }: Settlement): Work<void> {
  if (stop !== undefined) yield* put(stopKey(route), { at, reason: stop } satisfies RouteStop);
  if (pause !== undefined) {
    const known = yield* value<Pause>(pauseKey(route), "update");
    // Attempts end in any order, so the longest pause counts. Other settings of the breaker begin
    // anew.
    const until =
      known?.breaker === pause.breaker ? Math.max(known.until, pause.until) : pause.until;
    yield* put(pauseKey(route), { ...pause, until }, until);
  }
  if (opened !== undefined) yield* put(breakerKey(route), opened);
  if (failing !== undefined) yield* put(failingKey(route), failing);
}

export function* notesOf(routes: readonly string[]): Work<RouteNotes[]> {
  const found = yield* values<RouteStop | Pause | OpenNote | Failing>(
    routes.flatMap((route) => [
      stopKey(route),
      pauseKey(route),
      breakerKey(route),
      failingKey(route),
    ]),
  );
  return routes.map((_, place) => {
    const [stop, pause, opened, failing] = found.slice(4 * place) as [
      RouteStop | null,
      Pause | null,
      OpenNote | null,
      Failing | null,
    ];
    return { stop, pause, opened, failing };
  });
}

/** False: it was not stopped. */
export function* resume(route: string): Work<boolean> {
  return (yield* take(stopKey(route))) !== null;
}

/** True: there was a pause or an open breaker. */
export function* endPause({
  route,
  now,
}: {
  readonly route: string;
  readonly now: number;
}): Work<boolean> {
  const opened = yield* take<OpenNote>(breakerKey(route));
  const paused = yield* take<Pause>(pauseKey(route));
  return Math.max(opened?.until ?? 0, paused?.until ?? 0) > now;
}

export function* stopReason(route: string): Work<string | null> {
  return (yield* value<RouteStop>(stopKey(route)))?.reason ?? null;
}

/** What a store offers as it is. */
export const stateReads = {
  notesOf,
  serviceCalls,
  findCursor,
  listCursors,
  isClaimed,
  alarms,
  watched,
  lastPass,
  lastPasses,
  failedBackup,
};
export const stateWrites = {
  ...{
    moveCursor,
    claimOnce,
    keepAlarm,
    noteWatched,
    notePass,
    noteHandshake,
    noteSource,
    noteBackup,
    probe,
  },
};
