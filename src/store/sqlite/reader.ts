import { createReading } from "../read/reading.ts";
import { type Db, type FileKey, openForReading, readFileKey } from "./file.ts";
import { createInspecting } from "./inspecting.ts";
import { createSqliteRunner } from "./runner.ts";

export type StoreReader = ReturnType<typeof openReader>;

export function openReader(path: string) {
  const db = openForReading(path);
  const runner = createSqliteRunner(db);
  const inspecting = createInspecting(path);
  return {
    look: runner.read,
    read: createReading(runner),
    file: readFile(db),
    inspecting,
    async close(): Promise<void> {
      db.close();
      await inspecting.close();
    },
  };
}

function readFile(db: Db) {
  return {
    key: (what: FileKey): string | null => readFileKey(db, what),
    usedBytes(): number {
      const pages = (name: string) => db.pragma(name, { simple: true }) as number;
      return (pages("page_count") - pages("freelist_count")) * pages("page_size");
    },
    findDamage(): string | null {
      const found = db.pragma("quick_check(1)", { simple: true }) as string;
      return found === "ok" ? null : found;
    },
  };
}
