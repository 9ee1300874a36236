import type { ListenPage, ListenPort, ReadPage } from "./listen-port.ts";
import type { Start } from "./listen-query.ts";
import { type EventTexts, message } from "./listen-text.ts";
import { iso } from "./present.ts";

/** Something is sent at least this often: whoever hears nothing for three of them knows that the connection is dead. */
export const heartbeatMs = 15_000;
/** Whoever wants few of the events is told at most so often how far has been looked, so that a new start need not look again. */
const placeEveryMs = 1_000;

export interface ListenStreamParts {
  readonly port: ListenPort;
  readonly read: ReadPage;
  readonly start: Start;
  readonly texts: EventTexts;
  /** Told as the position moves. */
  readonly moved: (seq: number) => void;
  /** Whether whoever asked still may: tokens change while somebody listens. */
  readonly allowed: () => Promise<boolean>;
  /** The relay stops: a last word is said. */
  readonly stopping: AbortSignal;
  /** Nobody listens any more. */
  readonly gone: AbortSignal;
}

/**
 * Server-sent events, a page at a time (docs/listen.md says what they are). The next page is read when the one before
 * has been taken, so a slow reader costs one page of memory and nothing else. Ends when `gone` or `stopping` is.
 */
export async function* listenStream({
  port,
  read,
  start,
  texts,
  moved,
  allowed,
  stopping,
  gone,
}: ListenStreamParts): AsyncGenerator<string, void> {
  let position = start.after;
  let told = position;
  let sentAt = port.now();
  const sent = (text: string): string => {
    told = position;
    sentAt = port.now();
    moved(position);
    return text;
  };
  const newest = async () => (await port.ends()).newest;

  const { oldestAt, newest: newestNow } = await port.ends();
  const hello = {
    relay: port.version,
    after: start.after,
    newest: newestNow,
    reset: start.reset,
    keptFrom: iso(oldestAt),
    retentionMs: port.retention(),
  };
  // Where to resume goes along with the first word: whoever is cut off before the first event misses none.
  yield sent(`retry: 2000\n${message("hello", hello, position)}`);

  let missing: ListenPage["missing"] = null;
  while (!gone.aborted) {
    if (stopping.aborted) {
      yield message("bye", { reason: "the relay is stopping" }, null);
      return;
    }
    if (!(await allowed())) {
      yield message("bye", { reason: "the token no longer counts" }, null);
      return;
    }
    const woken = wakeUp(port, [stopping, gone]);
    const before = position;
    try {
      const { text, atEnd } = await read(position, (page) => {
        missing = joined(missing, page.missing);
        position = page.through;
        const told = missing !== null && (page.events.length > 0 || page.atEnd) ? message("gap", missing, null) : "";
        if (told !== "") missing = null;
        return { atEnd: page.atEnd, text: told + page.events.map(texts.of).join("") };
      });
      // A store that lost what it had gives its seqs anew, and nothing here would come before they are past this place.
      if (position === before && text === "" && (await newest()) < position) {
        yield message("bye", { reason: "the store has lost events that were heard here" }, null);
        return;
      }
      if (text !== "") yield sent(text);
      else if (position > told && port.now() - sentAt >= placeEveryMs)
        yield sent(message("at", { seq: position, newest: await newest() }, position));
      if (!atEnd) continue;
      while (!woken.isDone()) {
        const isBehind = position > told;
        const rest = (isBehind ? placeEveryMs : heartbeatMs) - (port.now() - sentAt);
        await woken.within(Math.max(0, rest));
        if (woken.isDone() || !(await allowed())) break;
        yield sent(isBehind ? message("at", { seq: position, newest: await newest() }, position) : ": still here\n\n");
      }
    } finally {
      woken.end();
    }
  }
}

function joined(before: ListenPage["missing"], next: ListenPage["missing"]): ListenPage["missing"] {
  if (before === null || next === null) return before ?? next;
  return { from: before.from, to: next.to, count: before.count + next.count };
}

/** Done at the first event stored after its making, or when a signal is aborted; made before reading, so that none slips between. */
function wakeUp(port: ListenPort, signals: readonly AbortSignal[]) {
  let done = signals.some((signal) => signal.aborted);
  let tell = (): void => {};
  const wake = (): void => {
    done = true;
    tell();
  };
  const leave = port.onStored(wake);
  for (const signal of signals) signal.addEventListener("abort", wake);
  return {
    isDone: () => done,
    /** Resolves when it is done, or after `ms`. */
    within: (ms: number): Promise<void> =>
      new Promise((resolve) => {
        if (done) {
          resolve();
          return;
        }
        const cancel = port.after(ms, resolve);
        tell = () => {
          cancel();
          resolve();
        };
      }),
    end(): void {
      leave();
      for (const signal of signals) signal.removeEventListener("abort", wake);
    },
  };
}
