import type { Proof } from "../tracked-views.ts";
import { dispositionCode } from "./codes.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";

/** What `doctor` asks of the file itself. */
export function createReadFile(db: Db, names: Names) {
  const proofs = db.prepare<[], Omit<Proof, "source" | "secret"> & { source: number; secret: number }>(
    "SELECT source, secret, events, duplicates, first_at AS firstAt, last_at AS lastAt FROM proofs ORDER BY source, secret",
  );
  const receivedAt = db.prepare<[number], number>("SELECT received_at FROM events WHERE seq <= ? ORDER BY seq DESC LIMIT 1").pluck();
  const quarantined = db.prepare<[], number>(`SELECT count(*) FROM events WHERE disposition = ${dispositionCode.quarantined}`).pluck();

  const holder = db.prepare<[], string>("SELECT value FROM meta WHERE key = 'holder'").pluck();

  return {
    /** The process that wrote last, such as `process 123 on host`. */
    holder: (): string | null => holder.get() ?? null,
    schemaVersion: (): number => db.pragma("user_version", { simple: true }) as number,
    /** Bytes of the file that hold rows, without pages that are free for use again. */
    usedBytes(): number {
      const pages = (name: string) => db.pragma(name, { simple: true }) as number;
      return (pages("page_count") - pages("freelist_count")) * pages("page_size");
    },
    /** SQLite's own look at the whole file, up to the first fault; null when there is none. Reads everything. */
    findDamage(): string | null {
      const found = db.pragma("quick_check(1)", { simple: true }) as string;
      return found === "ok" ? null : found;
    },
    quarantined: (): number => quarantined.get() ?? 0,
    proofs: (): Proof[] =>
      proofs.all().map(({ source, secret, ...sums }) => ({ source: names.nameOf(source), secret: names.nameOf(secret), ...sums })),
    /** Unix ms at which the event with this seq, or the one before it, was received. */
    receivedAt: (seq: number): number | null => receivedAt.get(seq) ?? null,
  };
}
