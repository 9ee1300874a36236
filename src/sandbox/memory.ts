import { randomBytes } from "node:crypto";
import type { Clock } from "../model/clock.ts";
import { type ClockControls, createSandboxClock, type SandboxClock } from "./clock.ts";
import { createGrowingIds } from "./ids.ts";
import { createRandom, type Random } from "./random.ts";
import { openStateFile, type StateFile } from "./state-file.ts";
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

/** What the sandbox remembers of itself, beside the world. */
interface Setup {
  readonly id: "setup";
  /** Signs what is posted to a webhook URL that was given no secret of its own. */
  secret: string;
  /** How often it was started with this file. */
  starts: number;
  /** Sandbox time minus the machine's. */
  clockOffset: number;
  /** Where the clock stands still; null while it runs. */
  frozenAt: number | null;
}

/** Throws SandboxRefused when the file cannot be had. */
export async function openMemory(settings: MemorySettings): Promise<Memory> {
  const { baseClock, watch } = settings;
  const file = settings.file === undefined ? null : await openStateFile(settings.file);
  // Silent at first: what comes from the file is not written into it again.
  const journals: Journal[] = [];
  const changed: Journal["changed"] = (...change) => {
    for (const journal of journals) journal.changed(...change);
  };
  const world = createWorld({ changed }, settings);
  const { setup, greatestId } = readWorld(file, world);
  if (file !== null) journals.push(file.journal);
  if (watch !== null) journals.push(watch(world));

  const state = setup ?? { id: "setup", secret: settings.newSecret(), starts: 0, clockOffset: 0, frozenAt: null };
  const remember = () => changed("setup", state.id, state);
  state.starts += 1;
  const formerSecret = state.secret;
  state.secret = settings.secret ?? formerSecret;
  remember();

  const clock = createSandboxClock(baseClock, state.frozenAt ?? baseClock.now() + state.clockOffset);
  if (state.frozenAt !== null) clock.freeze();
  const commanded = (command: () => void): void => {
    try {
      command();
    } finally {
      state.clockOffset = clock.now() - baseClock.now();
      state.frozenAt = clock.isFrozen ? clock.now() : null;
      remember();
    }
  };
  // Another stream at each start: the same wamids must not come again.
  const seed = settings.seed ?? randomBytes(8).toString("hex");
  const random = createRandom(state.starts === 1 ? seed : `${seed}/${state.starts}`);
  return {
    world,
    clock,
    clockControls: {
      now: clock.now,
      get isFrozen() {
        return clock.isFrozen;
      },
      advance: (ms) => commanded(() => clock.advance(ms)),
      freeze: () => commanded(clock.freeze),
      thaw: () => commanded(clock.thaw),
    },
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

/** Fills the world from the file. `greatestId`: ids made from now on must be greater; not given when there is none. */
function readWorld(file: StateFile | null, world: World): { readonly setup: Setup | null; readonly greatestId: string | undefined } {
  const tables = new Map(Object.values(world).map((table) => [table.kind, table as { put(record: unknown): void }]));
  let setup: Setup | null = null;
  let greatestId: string | undefined;
  for (const { kind, record } of file?.records() ?? []) {
    if (kind === "setup") setup = record as Setup;
    else tables.get(kind)?.put(record);
    if (isUuid.test(record.id) && record.id > (greatestId ?? "")) greatestId = record.id;
  }
  return { setup, greatestId };
}

const isUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;
