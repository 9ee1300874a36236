import { setImmediate as nextTurn } from "node:timers/promises";
import type { ListenerView } from "../model/answers/relay.ts";
import type { Clock } from "../model/clock.ts";
import type { ListenedContent, ListenPage, ListenQuery } from "../model/endpoints/stream.ts";
import { badRequest } from "../model/errors.ts";
import { readContent } from "../model/formats/formats.ts";
import { seqsBetween } from "../model/ids.ts";
import { shownName } from "../model/mask.ts";
import type { Limited } from "../model/queries.ts";
import { compileGlobs } from "../model/statuses.ts";
import { relayVersion } from "../model/version.ts";
import { automationRequest } from "../receive/verify-request.ts";
import { type Condition, compileWhere, type Where, whereSchema } from "../route/where.ts";
import type { Store } from "../store/create-store.ts";
import type { Wanted } from "../store/port.ts";

/**
 * Most listeners at once. Each costs a connection and a page of events; more mean a client that
 * does not close its connections.
 */
const mostListeners = 100;

export interface ListeningParts {
  readonly store: Pick<Store, "read" | "onStored" | "findCursor" | "listCursors" | "moveCursor">;
  readonly clock: Clock;
  /** How long events are kept, in ms. */
  readonly retention: () => number;
}

interface Listener {
  /** `as=` of the request, or null. */
  readonly name: string | null;
  /** Everything up to this seq was written to the connection. */
  readonly position: () => number;
}

export type Listening = ReturnType<typeof createListening>;

export function createListening({ store, clock, retention }: ListeningParts) {
  /** By slot: the lowest free one, so that metrics get few labels. */
  const listeners = new Map<number, Listener & { readonly connectedAt: number }>();
  const slice = createTimeSlicer(clock);
  const conditions = createConditions();

  return {
    slice,
    /** Times are unix ms. */
    port: {
      /**
       * Reads the next events after a seq. `use` runs at once, so that its time counts toward the
       * share of time for listeners.
       */
      open(filter: ListenQuery & Limited) {
        const wanted = compileFilter(filter, conditions);
        return async <T>(after: number, use: (page: ListenPage) => T): Promise<T> => {
          const page = await store.read.listen.page(after, wanted);
          return slice(() => page(use));
        };
      },
      ends: store.read.listen.ends,
      seqBefore: store.read.listen.seqBefore,
      onStored: store.onStored,
      cursor: store.findCursor,
      setCursor: (name: string, seq: number) => store.moveCursor(name, seq, clock.now()),
      /** Reserves a slot; null when there is none. The returned function releases it. */
      enter(listener: Listener) {
        let slot = 1;
        while (listeners.has(slot)) slot += 1;
        if (slot > mostListeners) return null;
        listeners.set(slot, { ...listener, connectedAt: clock.now() });
        return () => void listeners.delete(slot);
      },
      now: clock.now,
      after: clock.after,
      retention,
      version: relayVersion(),
    },
    /** How many events behind each listener is, by its name or without one, its slot. */
    async lags() {
      if (listeners.size === 0) return [];
      const { newest } = await store.read.listen.ends();
      return [...listeners].map(([slot, { name, position }]) => ({
        // Masked even if logs are not: a name may be a phone number.
        listener: name === null ? String(slot) : shownName("listener", name),
        behind: seqsBetween(position(), newest),
      }));
    },
    async list() {
      const cursors = await store.listCursors();
      const { newest } = await store.read.listen.ends();
      const movedAt = new Map<string | null, number>(
        cursors.map((cursor) => [cursor.name, cursor.movedAt]),
      );
      const viewOf = (
        name: string | null,
        position: number,
        connectedAt: number | null,
      ): ListenerView => ({
        name: name === null ? null : shownName("listener", name),
        connectedAt,
        movedAt: movedAt.get(name) ?? null,
        position,
        lag: seqsBetween(position, newest),
      });
      const connected = [...listeners.values()];
      const names = new Set(connected.map(({ name }) => name));
      return [
        ...connected.map(({ name, position, connectedAt }) =>
          viewOf(name, position(), connectedAt),
        ),
        ...cursors
          .filter(({ name }) => !names.has(name))
          .map(({ name, seq }) => viewOf(name, seq, null)),
      ];
    },
  };
}

/**
 * Most compiled conditions: patterns cache up to some MiB each, and compiling takes well under a
 * millisecond.
 */
const mostWarm = 8;

type Conditions = (where: Where) => Condition;

/** Caches the conditions used last, so that memory does not grow with the number of listeners. */
function createConditions(): Conditions {
  const compiled = new Map<Where, Condition>();
  return (where) => {
    const condition = compiled.get(where) ?? compileWhere(where, "where");
    compiled.delete(where);
    compiled.set(where, condition);
    const [oldest] = compiled.keys();
    if (compiled.size > mostWarm && oldest !== undefined) compiled.delete(oldest);
    return condition;
  };
}

/** Throws `bad_request`. */
function compileFilter(query: ListenQuery & Limited, conditions: Conditions): Wanted {
  const { accounts, source: sources, events, status: statuses, tracked, where } = query;
  const ofKind = events === undefined ? null : compileGlobs(events);
  return {
    row(row) {
      if (accounts !== undefined && !accounts.includes(row.account)) return false;
      if (sources !== undefined && !sources.includes(row.source)) return false;
      if (ofKind !== null && !ofKind(row.event)) return false;
      if (statuses !== undefined && (row.status === null || !statuses.includes(row.status)))
        return false;
      return tracked === undefined || row.tracked === tracked;
    },
    event: where === undefined ? null : compileData(where, conditions),
  };
}

function compileData(where: string, conditions: Conditions): NonNullable<Wanted["event"]> {
  const parsed = whereSchema.safeParse(parseWhere(where));
  if (!parsed.success)
    throw badRequest(
      parsed.error.issues.map(({ path, message }) => ({
        path: ["where", ...path].map(String).join("."),
        message,
      })),
    );
  return ({ event, content }) => {
    const data = dataOf(event, content());
    return data !== null && conditions(parsed.data)(data) === null;
  };
}

function parseWhere(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw badRequest([{ path: "where", message: "is not valid JSON" }]);
  }
}

/**
 * What routes match: the envelope's `data`, or the body of an automation request, which has no
 * envelope.
 */
function dataOf(
  event: string,
  { format, body }: Pick<ListenedContent, "format" | "body">,
): unknown {
  if (event !== automationRequest) return readContent(format ?? null, body)?.data ?? null;
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return {};
  }
}

type TimeSlicer = <T>(run: () => T | Promise<T>) => Promise<T>;

/** Most of the main thread's time that listeners get, because it also receives and delivers. */
const share = 0.2;
/** After this many ms of a turn of the event loop, no further piece starts. */
const sliceMs = 3;
/** Longest rest, in ms: the machine may have stalled during a piece. */
const longestRestMs = 50;

/**
 * Runs pieces of work in order, several in a turn of the event loop, and rests in proportion to the
 * time they took (`elapsed`, in ms): more listeners take no more time from receiving and
 * delivering.
 */
export function createTimeSlicer(
  clock: Clock,
  elapsed: () => number = () => performance.now(),
): TimeSlicer {
  const queue: (() => void)[] = [];
  let isRunning = false;

  async function work(): Promise<void> {
    isRunning = true;
    while (queue.length > 0) {
      await nextTurn();
      const startedAt = elapsed();
      do queue.shift()?.();
      while (queue.length > 0 && elapsed() - startedAt < sliceMs);
      const restMs = Math.min(longestRestMs, Math.round((elapsed() - startedAt) * (1 / share - 1)));
      if (restMs > 0) await new Promise<void>((resolve) => void clock.after(restMs, resolve));
    }
    isRunning = false;
  }

  return (run) =>
    new Promise((resolve, reject) => {
      queue.push(() => {
        try {
          resolve(run());
        } catch (error) {
          reject(error);
        }
      });
      if (!isRunning) void work();
    });
}
