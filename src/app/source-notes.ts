import type { Settings } from "../config/schema.ts";
import { accountsOf } from "../config/sources.ts";
import type { SourceView } from "../model/answers.ts";
import type { Store } from "../store/create-store.ts";
import type { SourceNote } from "../store/views.ts";

/** How often the same is noted, in ms, by each process. */
const everyMs = 60_000;
/** Most numbers that a process remembers having noted. */
const mostRemembered = 10_000;

interface SourceNotesParts {
  readonly store: Pick<Store, "noteSource">;
  readonly now: () => number;
}

/** Notes when sources were verified by a handshake, and when each number last had an event. Nobody waits for it. */
export function createSourceNotes({ store, now }: SourceNotesParts) {
  const notedAt = new Map<string, number>();

  function note(of: Omit<SourceNote, "at">): void {
    const key = `${of.source}/${of.number ?? ""}`;
    const at = now();
    const before = notedAt.get(key);
    if (before !== undefined && Math.abs(at - before) < everyMs) return;
    if (notedAt.size >= mostRemembered) notedAt.clear();
    notedAt.set(key, at);
    store.noteSource({ ...of, at }).catch(() => notedAt.delete(key));
  }

  return {
    handshake: (source: string): void => note({ source, number: null, account: null }),
    /** `number`: as the sender wrote it. `account`: empty when none has it. */
    event(source: string, number: unknown, account: string): void {
      if (typeof number === "string" && /^\d{1,32}$/.test(number)) note({ source, number, account: account || null });
    },
  };
}

/** The sources of the settings, with what was noted of them. */
export function viewSources({ sources }: Pick<Settings, "sources">, notes: readonly SourceNote[]): SourceView[] {
  return Object.entries(sources).map(([name, source]) => {
    const own = notes.filter((note) => note.source === name);
    const isMeta = source.kind === "events" && source.format === "meta";
    return {
      source: name,
      kind: source.kind,
      format: source.kind === "events" ? source.format : null,
      accounts: [...new Set(accountsOf(source))],
      handshake: isMeta && source.verifyTokens.length > 0 ? { doneAt: own.find(({ number }) => number === null)?.at ?? null } : null,
      numbers: own.flatMap(({ number, account, at }) => (number === null ? [] : [{ number, account, lastAt: at }])),
    };
  });
}
