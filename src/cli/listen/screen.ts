import type { Io } from "../io.ts";
import { asLine, type PrivateView, printable } from "../output.ts";
import { createDrawing } from "../progress.ts";
import type { StreamState } from "./follow.ts";
import type { PostOutcome } from "./forward.ts";
import type { Gap, Hello, ListenedEvent } from "./wire.ts";

/** Lines, and under them on a terminal one of `status()` that is drawn over itself. */
export function createScreen(io: Io, { isInteractive, status }: { isInteractive: boolean; status: () => string }) {
  const drawing = createDrawing(io);
  let isEnded = false;

  function drawStatus(): void {
    if (isInteractive && !isEnded) drawing.draw(status());
  }

  /** Main output: an event, an answer. */
  function line(text: string): void {
    drawing.print(text);
    drawStatus();
  }

  return {
    line,
    drawStatus,
    /** Status output: among the lines on a terminal, on standard error in a pipe. */
    note: isInteractive ? line : io.err,
    json: (value: unknown): void => io.out(asLine(JSON.stringify(value))),
    /** Draws no more. */
    end(): void {
      isEnded = true;
    },
  };
}

/** `--> message.status delivered [id] wamid:…`: an event that came. */
export function eventLine({ event, status, id, subject, origin, source }: ListenedEvent, view: PrivateView, showSource: boolean): string {
  const words = [
    "-->",
    view.text(event),
    ...(status === null ? [] : [view.text(status)]),
    `[${view.id("event", id)}]`,
    ...(subject === null ? [] : [view.subject(subject)]),
    ...(showSource ? [`from ${source}`] : []),
    ...(origin === "webhook" ? [] : [`(found by polling: ${origin})`]),
  ];
  return printable(words.join(" "));
}

/** `<-- [200] POST url [id] 12ms`: what the local server made of it. */
export function answerLine(
  { id }: Pick<ListenedEvent, "id">,
  url: string,
  { status, error, tookMs }: PostOutcome,
  { again, replay, keys }: { again: boolean; replay: boolean; keys: boolean },
): string {
  const after = again ? `; trying until it is taken${keys ? " (s skips it, r tries now)" : ""}` : "";
  const result = status === null ? `failed: ${error ?? "no answer"}` : `${Math.round(tookMs)}ms`;
  return printable(`<-- [${status ?? "---"}] POST ${url} [${id}] ${result}${replay ? " (replay)" : ""}${after}`);
}

export function gapLine({ from, to, count }: Gap): string {
  const events = count === 1 ? "1 event is" : `${count.toLocaleString("en-US")} events are`;
  return `!!! ${events} gone: retention deleted them before they could be listened to (seq ${from} to ${to})`;
}

export function helloLines(hello: Hello, place: { readonly url: string; readonly since: number | null }): string[] {
  const { relay, after, newest, reset, keptFrom } = hello;
  const behind = newest - after;
  const lines = [
    `listening to ${printable(place.url)} (wamid-relay ${printable(relay)}), ${behind === 0 ? "from now on" : `${behind.toLocaleString("en-US")} events behind`}`,
  ];
  if (reset)
    lines.unshift(
      `!!! the relay has another store, or an older copy of it: going on after its newest event (seq ${after}); what it lost cannot be listened to`,
    );
  if (place.since !== null && keptFrom !== null && Date.parse(keptFrom) > place.since)
    lines.push(`the oldest event that the relay has was received at ${printable(keptFrom)}`);
  return lines;
}

export function stateText(state: StreamState, behind: number): string {
  if (state.is === "connecting") return "connecting";
  if (state.is === "waiting") return `reconnecting in ${Math.ceil(state.ms / 1000)} s because ${printable(state.why)}`;
  return behind > 0 ? `live, behind ${behind.toLocaleString("en-US")}` : "live";
}

export interface StatusView {
  readonly state: StreamState;
  readonly behind: number;
  readonly came: number;
  readonly taken: number;
  readonly skipped: number;
  /** Failed posts of the event that is waited with. */
  readonly failures: number;
  readonly isPaused: boolean;
  /** Patterns of kinds; null: all. */
  readonly filter: string | null;
  /** What is being typed as a filter; null: nothing. */
  readonly typing: string | null;
}

/** The last line of a terminal, cut to its width. */
export function statusLine(view: StatusView, columns: number): string {
  if (view.typing !== null) return clip(`events (empty: all): ${printable(view.typing)}`, columns);
  const parts = [
    view.isPaused ? `paused, ${stateText(view.state, view.behind)}` : stateText(view.state, view.behind),
    `${view.came} in, ${view.taken} taken${view.skipped === 0 ? "" : `, ${view.skipped} skipped`}`,
    ...(view.failures === 0 ? [] : [`waiting for the local server (${view.failures} failed)  s skip`]),
    ...(view.filter === null ? [] : [`events ${printable(view.filter)}`]),
    "p pause  f filter  r replay  q quit",
  ];
  return clip(parts.join("  |  "), columns);
}

function clip(text: string, columns: number): string {
  return text.length < columns ? text : `${text.slice(0, Math.max(1, columns - 2))}…`;
}

/** An event as a line of JSON; with people's data masked, headers and body are left out. */
export function eventJson(event: ListenedEvent, view: PrivateView): Record<string, unknown> {
  const { headers, body, subject, ...rest } = event;
  return {
    type: "event",
    ...rest,
    id: view.id("event", rest.id),
    event: view.text(rest.event),
    status: rest.status === null ? null : view.text(rest.status),
    subject: subject === null ? null : { ...subject, key: view.subject(subject) },
    ...(view.isMasked ? {} : { headers, body: body.toString("base64") }),
  };
}

export interface KeyActions {
  replay(): void;
  pause(): void;
  skip(): void;
  quit(): void;
  /** Patterns of kinds typed; empty: all. */
  filter(text: string): void;
  /** What has been typed so far; null: nothing is being typed. */
  typing(text: string | null): void;
}

/** What keys do, one character at a time: `r`, `p`, `s`, `f` and a line after it, `q`, Ctrl-C. */
export function createKeys(actions: KeyActions): (characters: string) => void {
  let typed: string | null = null;

  function type(character: string): void {
    const before = typed ?? "";
    if (character === "\x1b") typed = null;
    else if (character === "\x7f" || character === "\b") typed = before.slice(0, -1);
    else if (character === "\r" || character === "\n") {
      typed = null;
      actions.typing(null);
      actions.filter(before.trim());
      return;
    } else if (character >= " ") typed = before + character;
    actions.typing(typed);
  }

  return (characters) => {
    for (const character of characters) {
      if (character === "\x03") actions.quit();
      else if (typed !== null) type(character);
      else if (character === "q") actions.quit();
      else if (character === "r") actions.replay();
      else if (character === "s") actions.skip();
      else if (character === "p") actions.pause();
      else if (character === "f") {
        typed = "";
        actions.typing(typed);
      }
    }
  };
}

/** Passes keys to `press`; the returned function restores the terminal. */
export function readKeys(input: NodeJS.ReadStream, press: (characters: string) => void): () => void {
  input.setRawMode(true);
  input.setEncoding("utf8");
  input.on("data", press);
  input.resume();
  return () => {
    input.off("data", press);
    input.setRawMode(false);
    input.pause();
  };
}
