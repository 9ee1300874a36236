import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import type { EventId } from "../model/ids.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { MessageRegistration } from "../track/registration.ts";
import type { Commands } from "./commands.ts";
import type { Database } from "./database.ts";
import type { BackfillFilter, QuarantineFilter, ReleasedEvent, ReplayCursor, ReplayFilter, ReplayFound } from "./port.ts";
import { type Rules, sumRegistered } from "./rules.ts";
import type { Work } from "./sql/ops.ts";
import { findBackfill } from "./work/backfill.ts";
import { each } from "./work/batches.ts";
import { findReplay, type ReplayPlace, type ReplayStep, startOfReplay } from "./work/find-replay.ts";
import { findQuarantined, quarantined } from "./work/quarantine.ts";

export interface StoreParts {
  readonly commands: Commands;
  readonly rules: Rules;
}

/** The port over the commands and reads of both databases. */
export function createStore(database: Database, { commands, rules }: StoreParts) {
  const { run, read } = database;
  const others = each((make: () => Work<unknown>) => make());
  /** A command that needs nothing but its turn. `make` begins it anew when its transaction is repeated. */
  const write = <T>(make: () => Work<T>): Promise<T> => run(others, make) as Promise<T>;

  return {
    accept: (event: ReceivedEvent, proxyRoute: string | null = null) => run(commands.accept, { event, proxyRoute }),
    nameRequest: (request: string, id: EventId, now: number, forMs: number) => run(commands.nameRequest, { request, id, now, forMs }),
    quarantine: (body: QuarantinedBody) => run(commands.quarantine, body),
    release: (event: ReleasedEvent) => run(commands.release, event),
    register: async (registrations: readonly MessageRegistration[], at: number) =>
      sumRegistered(await run(commands.register, { registrations, at })),
    registerEach: async (registrations: readonly MessageRegistration[], at: number) =>
      (await Promise.all(registrations.map((one) => run(commands.register, { registrations: [one], at })))).flat(),
    releaseParked: (now: number, limit: number) => write(() => commands.releaseParked(now, limit)),
    expireParked: (now: number, limit: number) => write(() => commands.expireParked(now, limit)),
    resume: (route: string) => run(commands.resume, route),
    endPause: (route: string, now: number) => run(commands.endPause, { route, now }),
    retry: (event: number, route: string, at: number) => run(commands.retry, { event, route, at }),
    replay: (found: ReplayFound["found"], states: ReplayFilter["states"], at: number) => run(commands.replay, { found, states, at }),
    backfill: (events: readonly number[], filter: BackfillFilter, at: number) => run(commands.backfill, { events, filter, at }),
    findReplay: (filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number) =>
      then(read(findReplay(filter, placeOf(cursor), now, limit)), foundOf),
    findBackfill: (filter: BackfillFilter, cursor: ReplayCursor, limit: number) =>
      then(read(findBackfill(filter, placeOf(cursor), limit, rules)), foundOf),
    findQuarantined: (filter: QuarantineFilter, { since, event, route }: ReplayCursor, limit: number) =>
      then(read(findQuarantined(filter, { since, receivedAt: Number(route), seq: event }, limit)), ({ found, place }) => ({
        found,
        cursor: place === null ? null : { since: place.since, event: place.seq, route: place.receivedAt },
      })),
    quarantined: (seq: number) => read(quarantined(seq)),
    // Service: polls, hydrations, passes, calls.

    // Notes: sends, cursors, claims, alarms, exchanges, last passes.

    // Upkeep: retention, history.

    // Reads.
  };
}

/** What follows from a read: at once on SQLite. */
function then<A, B>(answer: MaybePromise<A>, next: (answer: A) => B): MaybePromise<B> {
  return answer instanceof Promise ? answer.then(next) : next(answer);
}

/** A walk begins before all rows: with the event 0. */
function placeOf({ since, event, route, lane = 0 }: ReplayCursor): ReplayPlace {
  return event === 0 ? startOfReplay(since) : { since, event, lane, route: String(route) };
}

const foundOf = ({ found, place }: ReplayStep): ReplayFound => ({ found, cursor: place });
