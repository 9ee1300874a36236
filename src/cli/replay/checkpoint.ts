import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { CommandFailed } from "../io.ts";

const checkpointSchema = z.object({
  /** The options that say what is meant, as they were given. */
  asked: z.string(),
  filter: z.record(z.string(), z.unknown()),
  matching: z.number(),
  replayed: z.number(),
  cursor: z.string().nullable(),
});
type CheckpointState = z.infer<typeof checkpointSchema>;

/** How far a replay has come, in a file that outlives the command. */
interface Checkpoint {
  /** Null when there is none. Throws {@link CommandFailed} for one of another replay. */
  read(asked: string): CheckpointState | null;
  write(state: CheckpointState): void;
  remove(): void;
}

export function openCheckpoint(path: string | undefined): Checkpoint {
  if (path === undefined) return { read: () => null, write: () => {}, remove: () => {} };
  return {
    read(asked) {
      if (!existsSync(path)) return null;
      const parsed = checkpointSchema.safeParse(jsonOf(path));
      if (!parsed.success) throw new CommandFailed(`${path} is no checkpoint of a replay; remove it to begin anew`);
      if (parsed.data.asked !== asked)
        throw new CommandFailed(`${path} is the checkpoint of a replay with other options; remove it to begin anew`);
      return parsed.data;
    },
    write(state) {
      // Renamed, so that a crash leaves the one before.
      writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`);
      renameSync(`${path}.new`, path);
    },
    remove: () => rmSync(path, { force: true }),
  };
}

function jsonOf(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as unknown;
  } catch {
    return null;
  }
}
