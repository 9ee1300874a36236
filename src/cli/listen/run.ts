import type { Clock } from "../../model/clock.ts";
import { seqsBetween } from "../../model/seq.ts";
import type { Io } from "../io.ts";
import { follow, waitFor } from "./follow.ts";
import { createForwarder, type Targets } from "./forward.ts";
import { createCursor, openStream, type RelayAddress, storeCursor } from "./relay.ts";
import { answerLine, eventJson, eventLine, gapLine, helloLines, maskedEvent, waitingLine } from "./screen.ts";
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
  readonly maxAttempts: number | null;
  readonly isJson: boolean;
  readonly showPii: boolean;
  readonly clock: Clock;
  readonly random: () => number;
  /** Resolves when the user ends the command. */
  readonly stop: Promise<void>;
}

/** Grace period at the end for a post in flight and for the last cursor update. */
const lastWordsMs = 2_000;

/** Listens until `stop` resolves. Throws CommandFailed when the relay permanently refuses the first connection. */
export async function runListen(io: Io, run: ListenRun): Promise<void> {
  const { relay, targets, query, as, isJson, showPii, clock, random } = run;
  const shown = (event: ListenedEvent): ListenedEvent => (showPii ? event : maskedEvent(event));
  const quitting = new AbortController();
  const over = new AbortController();
  void run.stop.then(() => quitting.abort());

  let place = 0;
  let isFirst = true;
  /** The last disconnect reason printed: a long outage is reported once. */
  let lastReason = "";

  const json = (value: unknown): void => io.out(JSON.stringify(value));
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
    cursor?.moved(place);
  }

  const forwarder = createForwarder({
    targets,
    maxAttempts: run.maxAttempts,
    clock,
    random,
    quit: quitting.signal,
    onEvent(event, url) {
      if (isJson) json(eventJson(shown(event), showPii));
      else
        io.out(
          `${eventLine(shown(event), query.getAll("source").length !== 1)}${targets !== null && url === null ? " (goes nowhere)" : ""}`,
        );
    },
    onAnswer(event, url, outcome, again) {
      if (isJson) json({ type: "answer", seq: event.seq, id: shown(event).id, url, ...outcome, again });
      else io.out(answerLine(shown(event), url, outcome, again));
    },
    onSkipped(event) {
      if (isJson) json({ type: "skipped", seq: event.seq, id: shown(event).id });
      else io.out(`... passed over [${event.id}]`);
    },
  });

  const following = follow(
    {
      open: (after, signal) => openStream(relay, query, after, signal),
      async take(event: ListenedEvent) {
        await forwarder.take(event);
        done(event.seq);
      },
      onHello(hello) {
        place = hello.reset ? hello.after : Math.max(place, hello.after);
        const behind = seqsBetween(place, hello.newest);
        if (isJson) json({ type: "hello", relay: hello.relay, after: hello.after, newest: hello.newest, reset: hello.reset });
        else if (isFirst || hello.reset) for (const line of helloLines(hello, { url: relay.url, since: run.since })) io.err(line);
        else io.err(`live again${behind === 0 ? "" : `, ${behind.toLocaleString("en-US")} events behind`}`);
        isFirst = false;
      },
      onGap(gap) {
        if (isJson) json({ type: "gap", from: gap.from, to: gap.to, count: gap.count });
        else io.out(gapLine(gap));
      },
      onPlace: ({ seq }) => done(seq),
      onState(state) {
        if (isJson) json({ type: "state", ...state, state: state.is });
        else if (state.is === "waiting" && state.why !== lastReason) io.err(waitingLine(state));
        if (state.is === "waiting") lastReason = state.why;
        else if (state.is === "live") lastReason = "";
      },
      clock,
      random,
    },
    quitting.signal,
  );

  try {
    const ended = new Promise<void>((resolve) => {
      quitting.signal.addEventListener("abort", () => void waitFor(clock, lastWordsMs, over.signal).then(resolve));
    });
    await Promise.race([following, ended]);
    if (cursor !== null) await Promise.race([cursor.flush(), waitFor(clock, lastWordsMs, over.signal)]);
  } finally {
    over.abort();
    await targets?.close();
  }
}
