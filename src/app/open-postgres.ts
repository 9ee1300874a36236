import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { breakerName, type LaneSettings } from "../deliver/settings.ts";
import type { Clock } from "../model/clock.ts";
import type { BreakerView, Failing } from "../model/shared-limits.ts";
import { relayVersion } from "../model/version.ts";
import { openPostgresStore, openPostgresForReading as openReading } from "../store/postgres/open.ts";
import type { PostgresStorage } from "../store/settings.ts";
import type { Work } from "../store/sql/ops.ts";
import type { Held } from "../store/work/leases.ts";
import { failingKey, type Pause, pauseKey } from "../store/work/route-notes.ts";
import { values } from "../store/work/state.ts";
import type { BreakersOf, Engine, OpenOptions, ReadingEngine } from "./engine.ts";

const settingsOf = ({ url, schema, tls }: PostgresStorage) => ({ url: url.reveal(), schema, tls });

/** The store on PostgreSQL. Throws `StoreRefused` for what no waiting repairs. */
export async function openPostgres(
  storage: PostgresStorage,
  { role, instance = randomUUID(), rules, hooks, clock: given }: OpenOptions,
): Promise<Engine> {
  const held = (): Held => null;
  const presence = { id: instance, role, host: hostname(), pid: process.pid, version: relayVersion() };
  const opened = await openPostgresStore(settingsOf(storage), { rules, hooks, presence, held, clock: given });
  const { clock, processes, read } = opened;
  return {
    store: opened.store,
    clock,
    lanes: {
      queueOf() {
        throw new Error("routes are not delivered yet");
      },
    },
    breakersOf: storedBreakers(read, clock),
    processes,
    tryNow: ({ name }) => opened.store.endPause(name, clock.now()),
  };
}

/** Opens the database of relays for reading, as long as a command runs. Throws `StoreRefused` when that fails. */
export async function openPostgresForReading(storage: PostgresStorage): Promise<ReadingEngine> {
  const { read, reading, inspecting, clock, processes, close } = await openReading(settingsOf(storage));
  return { read: reading, inspecting, now: clock.now, breakersOf: storedBreakers(read, clock), processes, close };
}

type Read = <T>(work: Work<T>) => Promise<T>;

/** What the holders of routes have stored. Whether a breaker is open is in the memory of its holder. */
function storedBreakers(read: Read, clock: Pick<Clock, "now">): BreakersOf {
  return async (routes) => {
    const notes = await read(notesOf(routes));
    return new Map(notes.map(({ route, pausedUntil, failing }) => [route, viewOf(pausedUntil, failing, clock.now())]));
  };
}

const viewOf = (pausedUntil: number | null, failing: Failing | null, now: number): BreakerView => ({
  state: "closed",
  pausedUntil: pausedUntil !== null && pausedUntil > now ? pausedUntil : null,
  openUntil: null,
  failingSince: failing?.since ?? null,
  failing,
});

function* notesOf(routes: readonly LaneSettings[]) {
  const pauses = yield* values<Pause>(routes.map(({ name }) => pauseKey(name)));
  const failing = yield* values<Failing>(routes.map(({ name }) => failingKey(name)));
  return routes.map((route, place) => {
    const pause = pauses[place] ?? null;
    return { route: route.name, pausedUntil: pause?.breaker === breakerName(route) ? pause.until : null, failing: failing[place] ?? null };
  });
}
