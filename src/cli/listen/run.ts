import type { Clock } from "../../model/clock.ts";
import type { Io } from "../io.ts";
import type { PrivateView } from "../output.ts";
import { type FollowParts, follow, type StreamState, waitFor } from "./follow.ts";
import { createForwarder, type Targets } from "./forward.ts";
import { createCursor, openStream, type RelayAddress, storeCursor } from "./relay.ts";
import {
  answerLine,
  createKeys,
  createScreen,
  eventJson,
  eventLine,
  gapLine,
  helloLines,
  readKeys,
  stateText,
  statusLine,
} from "./screen.ts";
import type { ListenedEvent } from "./wire.ts";

interface ListenRun {
  readonly relay: RelayAddress;
  /** Null: events are only shown. */
  readonly targets: Targets | null;
  /** Query of `GET /v1/listen`, without the position. */
  readonly query: URLSearchParams;
  /** The name whose cursor the relay keeps; null: none. */
  readonly as: string | null;
  /** Unix ms of `--since`; null: not given. */
  readonly since: number | null;
  readonly tries: number | null;
  readonly isJson: boolean;
  readonly view: PrivateView;
  /** Where keys come from; null: there are none. */
  readonly keys: NodeJS.ReadStream | null;
  readonly columns: () => number;
  readonly clock: Clock;
  readonly random: () => number;
  /** Resolves when the user ends the command. */
  readonly stop: Promise<void>;
}

/** Grace period at the end for a post in flight and for the last cursor update. */
const lastWordsMs = 2_000;

/** Listens until `stop` resolves. Throws CommandFailed when the relay permanently refuses the first connection. */
export async function runListen(io: Io, run: ListenRun): Promise<void> {
  const { relay, targets, query, as, isJson, view, clock, random } = run;
  const quitting = new AbortController();
  const over = new AbortController();
  const quit = (): void => quitting.abort();
  void run.stop.then(quit);

  let state: StreamState = { is: "connecting" };
  let stateAt = clock.now();
  let place = 0;
  let newest = 0;
  let isFirst = true;
  let typing: string | null = null;
  /** The last disconnect reason printed: a long outage is reported once. */
  let lastReason = "";
  const counts = { came: 0, taken: 0, skipped: 0 };

  const behind = () => Math.max(0, newest - place);
  const stateNow = (): StreamState =>
    state.is === "waiting" ? { ...state, ms: Math.max(0, state.ms - Math.max(0, clock.now() - stateAt)) } : state;
  const status = (): string =>
    statusLine(
      {
        ...counts,
        state: stateNow(),
        behind: behind(),
        failures: forwarder.failures(),
        isPaused: forwarder.isPaused(),
        filter: query.get("events"),
        typing,
      },
      run.columns(),
    );
  const screen = createScreen(io, { isInteractive: run.keys !== null, status });
  const cursor =
    as === null
      ? null
      : createCursor({
          store: (seq) => storeCursor(relay, as, seq),
          wait: (ms) => waitFor(clock, ms, over.signal),
          over: quitting.signal,
        });

  function done(seq: number): void {
    place = Math.max(place, seq);
    newest = Math.max(newest, seq);
    cursor?.moved(place);
    screen.drawStatus();
  }

  const forwarder = createForwarder({
    targets,
    tries: run.tries,
    clock,
    random,
    quit: quitting.signal,
    onEvent(event, url) {
      counts.came += 1;
      if (isJson) screen.json(eventJson(event, view));
      else
        screen.line(
          `${eventLine(event, view, query.getAll("source").length !== 1)}${targets !== null && url === null ? " (goes nowhere)" : ""}`,
        );
    },
    onAnswer(event, url, outcome, { again, replay }) {
      if (outcome.taken && !replay) counts.taken += 1;
      if (isJson) screen.json({ type: "answer", seq: event.seq, id: event.id, url, ...outcome, again, replay });
      else screen.line(answerLine({ id: view.id("event", event.id) }, url, outcome, { again, replay, keys: run.keys !== null }));
    },
    onSkipped(event) {
      counts.skipped += 1;
      if (isJson) screen.json({ type: "skipped", seq: event.seq, id: event.id });
      else screen.line(`... passed over [${event.id}]`);
    },
  });

  const parts: FollowParts = {
    open: (after, signal) => openStream(relay, query, after, signal),
    async take(event: ListenedEvent) {
      newest = Math.max(newest, event.seq);
      await forwarder.take(event);
      done(event.seq);
    },
    onHello(hello) {
      place = hello.reset ? hello.after : Math.max(place, hello.after);
      newest = hello.newest;
      if (isJson) screen.json({ type: "hello", relay: hello.relay, after: hello.after, newest: hello.newest, reset: hello.reset });
      else if (isFirst || hello.reset) for (const line of helloLines(hello, { url: relay.url, since: run.since })) screen.note(line);
      else screen.note(`live again${behind() === 0 ? "" : `, ${behind().toLocaleString("en-US")} events behind`}`);
      isFirst = false;
    },
    onGap(gap) {
      if (isJson) screen.json({ type: "gap", from: gap.from, to: gap.to, count: gap.count });
      else screen.line(gapLine(gap));
    },
    onPlace({ seq, newest: last }) {
      newest = last;
      done(seq);
    },
    onState(next) {
      state = next;
      stateAt = clock.now();
      if (isJson) screen.json({ type: "state", ...next, state: next.is });
      else if (next.is === "waiting" && next.why !== lastReason) screen.note(stateText(next, 0));
      if (next.is === "waiting") lastReason = next.why;
      else if (next.is === "live") lastReason = "";
      screen.drawStatus();
    },
    clock,
    random,
  };
  const following = follow(parts, quitting.signal);

  const press = createKeys({
    replay: forwarder.replay,
    skip: forwarder.skip,
    quit,
    pause() {
      forwarder.pause();
      screen.drawStatus();
    },
    filter(text) {
      if (text === "") query.delete("events");
      else query.set("events", text);
      following.again();
    },
    typing(text) {
      typing = text;
      screen.drawStatus();
    },
  });
  const endKeys = run.keys === null ? () => {} : readKeys(run.keys, press);
  const endTicks = run.keys === null ? () => {} : everySecond(clock, screen.drawStatus);

  try {
    const ended = new Promise<void>((resolve) => {
      quitting.signal.addEventListener("abort", () => void waitFor(clock, lastWordsMs, over.signal).then(resolve));
    });
    await Promise.race([following.done, ended]);
    if (cursor !== null) await Promise.race([cursor.flush(), waitFor(clock, lastWordsMs, over.signal)]);
  } finally {
    over.abort();
    endKeys();
    endTicks();
    screen.end();
    await targets?.close();
  }
}

function everySecond(clock: Clock, run: () => void): () => void {
  let cancel = (): void => {};
  const tick = (): void => {
    cancel = clock.after(1_000, () => {
      run();
      tick();
    });
  };
  tick();
  return () => cancel();
}
