import { randomBytes } from "node:crypto";
import type { Clock } from "../model/clock.ts";
import type { ClockControls } from "./clock.ts";
import { createSandboxClock, type SandboxClock } from "./clock.ts";
import { createGrowingIds } from "./growing-ids.ts";
import { createRandom, type Random } from "./random.ts";
import { readWorld, type Setup, switchable } from "./state-file/remembered.ts";
import { openStateFile, type StateFile } from "./state-file/state-file.ts";
import type { Journal } from "./world/table.ts";
import { createWorld, type World } from "./world/world.ts";

export interface MemorySettings {
  /** Path of the SQLite file; not given: all is forgotten at the end. */
  readonly file: string | undefined;
  readonly seed: string | number | undefined;
  readonly baseClock: Clock;
  /** Messages to remember. */
  readonly keepMessages: number;
  /** Used when the file remembers none. */
  readonly newSecret: () => string;
  /** Stronger than the one remembered. */
  readonly secret: string | undefined;
  /** Hears of every change too; made when the world is there. */
  readonly watch: ((world: World) => Journal) | null;
}

/** The world, and what must go on from where an earlier run left it: time, ids, chance and the secret. */
export interface Memory {
  readonly world: World;
  readonly clock: SandboxClock;
  /** The clock as those see it who command it: what they do to it is remembered. */
  readonly clockControls: ClockControls;
  readonly ids: () => string;
  readonly random: Random;
  readonly secret: string;
  /** The one of the earlier run; `secret` when there was none. */
  readonly formerSecret: string;
  /** Null without a file. */
  readonly file: StateFile | null;
  close(): void;
}

/** Throws SandboxRefused when the file cannot be had. */
export async function openMemory(settings: MemorySettings): Promise<Memory> {
  const { baseClock, watch } = settings;
  const file = settings.file === undefined ? null : await openStateFile(settings.file);
  const journal = switchable(
    ...(file === null ? [] : [file.journal]),
    ...(watch === null ? [] : [{ changed: (...change: Parameters<Journal["changed"]>) => watching.changed(...change) }]),
  );
  const world = createWorld(journal, settings);
  const watching = watch?.(world) ?? { changed() {} };
  const { setup, greatestId } = file === null ? { setup: null, greatestId: undefined } : readWorld(file, world);
  journal.isOn = true;

  const state: Setup = setup ?? { id: "setup", secret: settings.newSecret(), starts: 0, clockOffset: 0, frozenAt: null };
  const remember = () => journal.changed("setup", state.id, state);
  state.starts += 1;
  const formerSecret = state.secret;
  state.secret = settings.secret ?? formerSecret;
  remember();

  const clock = createSandboxClock(baseClock, state.frozenAt ?? baseClock.now() + state.clockOffset);
  if (state.frozenAt !== null) clock.freeze();
  // Another stream at each start: the same wamids must not come again.
  const seed = settings.seed ?? randomBytes(8).toString("hex");
  const random = createRandom(state.starts === 1 ? seed : `${seed}/${state.starts}`);
  return {
    world,
    clock,
    clockControls: remembered(clock, () => {
      state.clockOffset = clock.now() - baseClock.now();
      state.frozenAt = clock.isFrozen ? clock.now() : null;
      remember();
    }),
    ids: createGrowingIds({ now: clock.now, random: random.fork("ids"), ...(greatestId === undefined ? {} : { after: greatestId }) }),
    random,
    secret: state.secret,
    formerSecret,
    file,
    close() {
      clock.close();
      file?.close();
    },
  };
}

function remembered(clock: SandboxClock, remember: () => void): ClockControls {
  return {
    now: clock.now,
    get isFrozen() {
      return clock.isFrozen;
    },
    advance(ms) {
      try {
        clock.advance(ms);
      } finally {
        remember();
      }
    },
    freeze() {
      clock.freeze();
      remember();
    },
    thaw() {
      clock.thaw();
      remember();
    },
  };
}
