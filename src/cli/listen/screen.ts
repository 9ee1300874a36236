import type { RelayClientError } from "../../client/connection.ts";
import { isCanonicalUuid, seqsBetween } from "../../model/ids.ts";
import { type IdSort, maskText, maskWamid, shownName } from "../../model/mask.ts";
import { failureOf } from "../control-client.ts";
import type { Io } from "../io.ts";
import { counted } from "../output.ts";
import type { Gap, Hello, ListenedEvent } from "./wire.ts";

export interface ScreenParts {
  readonly io: Io;
  /** Unix ms. */
  readonly now: () => number;
  readonly isJson: boolean;
  readonly showPii: boolean;
  /** More than one source may be shown. */
  readonly showsSource: boolean;
  /** Since when the relay has events, as `--since` may lie before. */
  readonly showsOldest: boolean;
  readonly isForwarding: boolean;
  readonly url: string;
}

export interface PostOutcome {
  readonly taken: boolean;
  readonly status: number | null;
  readonly error: string | null;
  readonly tookMs: number;
}

export type Screen = ReturnType<typeof createScreen>;

/**
 * Prints what happens: lines of JSON, or with the local time events on standard output and the
 * connection on standard error.
 */
export function createScreen({
  io,
  now,
  isJson,
  showPii,
  showsSource,
  showsOldest,
  isForwarding,
  url: relayUrl,
}: ScreenParts) {
  let isFirst = true;
  let shownGap = 0;
  /** The last disconnect reason printed: a long outage is reported once. */
  let lastReason = "";
  /** JSON instead of the lines where `--json` asks for it. */
  const say = (json: () => object, lines: readonly string[], print = io.out): void => {
    if (isJson) io.out(JSON.stringify(json()));
    else for (const line of lines) print(`${new Date(now()).toLocaleTimeString("en-GB")} ${line}`);
  };
  const masked = (event: ListenedEvent): ListenedEvent => (showPii ? event : maskedEvent(event));
  return {
    event(given: ListenedEvent, url: string | null): void {
      const event = masked(given);
      const where = isForwarding && url === null ? " (goes nowhere)" : "";
      say(() => eventJson(event, showPii), [`${eventLine(event, showsSource)}${where}`]);
    },
    /** `again`: it will be posted again. Not called for a failure equal to the previous one. */
    answer(event: ListenedEvent, url: string, outcome: PostOutcome, again: boolean): void {
      const { seq, id } = masked(event);
      const line = answerLine({ id }, url, outcome, again);
      say(() => ({ type: "answer", seq, id, url, ...outcome, again }), [line]);
    },
    skipped(event: ListenedEvent): void {
      const { seq, id } = masked(event);
      say(() => ({ type: "skipped", seq, id }), [`... passed over [${id}]`]);
    },
    connecting: () => say(() => ({ type: "state", state: "connecting" }), []),
    /** `place`: the last event that is done with. */
    hello(hello: Hello, place: number): void {
      const behind = seqsBetween(place, hello.newest);
      const again = `live again${behind === 0 ? "" : `, ${counted(behind, "event")} behind`}`;
      say(() => ({ ...hello, type: "hello" }), []);
      say(
        () => ({ type: "state", state: "live" }),
        isFirst || hello.reset ? helloLines(hello, relayUrl, showsOldest) : [again],
        io.err,
      );
      isFirst = false;
      lastReason = "";
    },
    gap(gap: Gap): void {
      // A reconnect repeats it until a later event was taken.
      if (gap.to <= shownGap) return;
      shownGap = gap.to;
      say(() => ({ ...gap, type: "gap" }), [gapLine(gap)]);
    },
    lost(error: RelayClientError, ms: number): void {
      const why = (failureOf(error) as Error).message;
      const lines = why === lastReason ? [] : [waitingLine(why, ms)];
      say(() => ({ type: "state", state: "waiting", why, ms }), lines, io.err);
      lastReason = why;
    },
  };
}

/** `--> message.status delivered [id] wamid:…`: an event that came. */
export function eventLine(
  { event, status, id, subject, origin, source }: ListenedEvent,
  showSource: boolean,
): string {
  const words = [
    "-->",
    event,
    ...(status === null ? [] : [status]),
    `[${id}]`,
    ...(subject === null ? [] : [subject.key]),
    ...(showSource ? [`from ${source}`] : []),
    ...(origin === "webhook" ? [] : [`(found by polling: ${origin})`]),
  ];
  return words.join(" ");
}

/** `<-- [200] POST url [id] 12ms`: what the local server made of it. */
export function answerLine(
  { id }: Pick<ListenedEvent, "id">,
  url: string,
  { status, error, tookMs }: PostOutcome,
  again: boolean,
): string {
  const isDown = status === null && error?.includes("ECONNREFUSED") === true;
  const after = again
    ? `; ${isDown ? "start your server: the event is" : "it is"} posted again until it is taken`
    : "";
  const result = status === null ? `failed: ${error ?? "no answer"}` : `${Math.round(tookMs)}ms`;
  return `<-- [${status ?? "---"}] POST ${url} [${id}] ${result}${after}`;
}

export function gapLine({ from, to, count }: Gap): string {
  return `!!! retention deleted ${counted(count, "event")} before they could be listened to (seq ${from} to ${to})`;
}

export function helloLines(hello: Hello, url: string, showsOldest: boolean): string[] {
  const { relay, after, newest, reset, keptFrom } = hello;
  const behind = seqsBetween(after, newest);
  const lines = [
    `listening to ${url} (wamid-relay ${relay}), ${behind === 0 ? "from now on" : `${counted(behind, "event")} behind`}`,
  ];
  if (reset)
    lines.unshift(
      `!!! the relay has another store, or an older copy of it: going on after its newest event (seq ${after}); what it lost cannot be listened to`,
    );
  if (showsOldest && keptFrom !== null)
    lines.push(`the oldest event that the relay has was received at ${keptFrom}`);
  return lines;
}

export function waitingLine(why: string, ms: number): string {
  return `reconnecting in ${Math.ceil(ms / 1000)} s because ${why}`;
}

/** A UUID with eight digits in a row is no phone number. */
const shown = (sort: IdSort, id: string): string =>
  isCanonicalUuid(id) ? id : shownName(sort, id);

/** The same event with people's data masked, but for its headers and body. */
export function maskedEvent(event: ListenedEvent): ListenedEvent {
  const { id, status, subject } = event;
  return {
    ...event,
    id: shown("event", id),
    event: maskText(event.event),
    status: status === null ? null : maskText(status),
    subject: subject && {
      ...subject,
      key: subject.type === "message" ? maskWamid(subject.key) : shown("run", subject.key),
    },
  };
}

export function eventJson(
  { headers, body, ...rest }: ListenedEvent,
  showPii: boolean,
): Record<string, unknown> {
  return { type: "event", ...rest, ...(showPii ? { headers, body: body.toString("base64") } : {}) };
}
