import { readFileSync } from "node:fs";
import type { Listener, ListenFilter, ListenPort } from "../control/listen-stream.ts";
import type { Clock } from "../model/clock.ts";
import { parseEnvelope } from "../model/envelope.ts";
import { RelayError } from "../model/errors.ts";
import { shownName } from "../model/mask.ts";
import { automationRequest } from "../receive/verify-request.ts";
import { compileGlobs } from "../route/match.ts";
import { type Where, whereSchema } from "../route/settings.ts";
import { type Condition, compileWhere } from "../route/where.ts";
import type { Store } from "../store/port.ts";
import type { Wanted } from "../store/reading.ts";
import { createTurns } from "./turns.ts";

/** Listeners at once. Each costs a connection and a page of events; more than this are a client that does not close. */
const mostListeners = 100;

export interface ListeningParts {
  readonly store: Pick<Store, "read" | "onStored" | "findCursor" | "moveCursor">;
  readonly clock: Clock;
  /** How long events are kept, in ms. */
  readonly retention: () => number;
}

export interface Listening {
  readonly port: ListenPort;
  /** How many events behind each listener is, by its name or, without one, its place. */
  lags(): Promise<{ readonly listener: string; readonly behind: number }[]>;
}

/** Those who listen to events as they are stored; nothing of deliveries is touched for them. */
export function createListening({ store, clock, retention }: ListeningParts): Listening {
  /** By place: the lowest free one, so that few names come up in metrics. */
  const listeners = new Map<number, Listener>();
  const inTurn = createTurns(clock);
  const warm = createWarmConditions();

  return {
    port: {
      open(filter) {
        const wanted = compileFilter(filter, warm);
        return async (after, use) => {
          const page = await store.read.listen.page(after, wanted);
          return inTurn(() => page(use));
        };
      },
      ends: store.read.listen.ends,
      seqBefore: store.read.listen.seqBefore,
      onStored: store.onStored,
      cursor: store.findCursor,
      moveCursor: (name, seq) => store.moveCursor(name, seq, clock.now()),
      enter(listener) {
        let place = 1;
        while (listeners.has(place)) place += 1;
        if (place > mostListeners) return null;
        listeners.set(place, listener);
        return () => void listeners.delete(place);
      },
      now: clock.now,
      after: clock.after,
      retention,
      version: (JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string }).version,
    },
    async lags() {
      if (listeners.size === 0) return [];
      const { newest } = await store.read.listen.ends();
      return [...listeners].map(([place, { name, position }]) => ({
        // The name may be a phone number, and metrics show none, whatever the logs show.
        listener: name === null ? String(place) : shownName("listener", name),
        behind: newest - position(),
      }));
    },
  };
}

/** Compiled conditions at once: patterns cache up to some MiB each, and compiling one again takes well under a millisecond. */
const mostWarm = 8;

type WarmConditions = ReturnType<typeof createWarmConditions>;

/** Keeps the conditions compiled that were used last, so that memory does not grow with the number of listeners. */
function createWarmConditions() {
  const compiled = new Map<Where, Condition>();
  return {
    of(where: Where): Condition {
      const condition = compiled.get(where) ?? compileWhere(where, "where");
      compiled.delete(where);
      compiled.set(where, condition);
      for (const oldest of compiled.keys()) {
        if (compiled.size <= mostWarm) break;
        compiled.delete(oldest);
      }
      return condition;
    },
  };
}

/** Throws `bad_request`. */
function compileFilter({ sources, events, statuses, tracked, where }: ListenFilter, warm: WarmConditions): Wanted {
  const ofKind = events === undefined ? null : compileGlobs(events);
  return {
    row(row) {
      if (sources !== undefined && !sources.includes(row.source)) return false;
      if (ofKind !== null && !ofKind(row.event)) return false;
      if (statuses !== undefined && (row.status === null || !statuses.includes(row.status))) return false;
      return tracked === undefined || row.tracked === tracked;
    },
    event: where === undefined ? null : compileData(where, warm),
  };
}

function compileData(where: unknown, warm: WarmConditions): NonNullable<Wanted["event"]> {
  const parsed = whereSchema.safeParse(where);
  if (!parsed.success) {
    const details = parsed.error.issues.map(({ path, message }) => ({ path: ["where", ...path].map(String).join("."), message }));
    throw new RelayError("bad_request", details.map(({ path, message }) => `${path}: ${message}`).join("; "), details);
  }
  const condition = () => warm.of(parsed.data);
  return ({ event, content }) => {
    const data = dataOf(event, content().body);
    return data !== null && condition()(data) === null;
  };
}

/** What routes judge: the envelope's `data`; of an automation's request, which has no envelope, the body. */
function dataOf(event: string, body: Buffer): unknown {
  if (event !== automationRequest) {
    const parsed = parseEnvelope(body);
    return parsed.ok ? parsed.envelope.data : null;
  }
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return {};
  }
}
