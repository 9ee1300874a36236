import type { Journal } from "../world/table.ts";
import type { World } from "../world/world.ts";
import type { StateFile } from "./state-file.ts";

/** What the sandbox remembers of itself, beside the world. */
export interface Setup {
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

/** A journal that can be silent: what comes from the file is not written into it again. */
export interface Switch extends Journal {
  isOn: boolean;
}

export function switchable(...journals: readonly Journal[]): Switch {
  return {
    isOn: false,
    changed(kind, id, record) {
      if (this.isOn) for (const journal of journals) journal.changed(kind, id, record);
    },
  };
}

/** Fills the world from the file. `greatestId`: ids made from now on must be greater; not given when there is none. */
export function readWorld(file: StateFile, world: World): { readonly setup: Setup | null; readonly greatestId: string | undefined } {
  const tables = new Map(Object.values(world).map((table) => [table.kind, table as { put(record: unknown): void }]));
  let setup: Setup | null = null;
  let greatestId: string | undefined;
  for (const { kind, record } of file.records()) {
    if (kind === "setup") setup = record as Setup;
    else tables.get(kind)?.put(record);
    if (isUuid.test(record.id) && record.id > (greatestId ?? "")) greatestId = record.id;
  }
  return { setup, greatestId };
}

const isUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;
