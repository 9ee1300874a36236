import type { RelayClientError } from "../../client/connection.ts";
import { follow, sleepAware } from "../../client/follow.ts";
import { type Clock, pause } from "../../model/clock.ts";
import { seqsBetween } from "../../model/seq.ts";
import { failureOf } from "../control-client.ts";
import type { Io } from "../io.ts";
import { createForwarder, type Targets } from "./forward.ts";
import { connectListener, createCursor, type RelayAddress } from "./relay.ts";
import { answerLine, eventJson, eventLine, gapLine, helloLines, maskedEvent, waitingLine } from "./screen.ts";
import { type Gap, type Hello, type ListenedEvent, readListened } from "./wire.ts";

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
  const { relay, targets, query, as, isJson, showPii, random } = run;
  const clock = sleepAware(run.clock);
  const connection = connectListener(relay);
  const waitFor = (ms: number, signal: AbortSignal): Promise<void> => pause(clock, ms, signal).catch(() => {});
  const shown = (event: ListenedEvent): ListenedEvent => (showPii ? event : maskedEvent(event));
  const quitting = new AbortController();
  const over = new AbortController();
  void run.stop.then(() => quitting.abort());

  let place = 0;
  let isFirst = true;
  let shownGap = 0;
  /** The last disconnect reason printed: a long outage is reported once. */
  let lastReason = "";

  const json = (value: unknown): void => io.out(JSON.stringify(value));
  const cursor =
    as === null
      ? null
      : createCursor({
          store: (seq) => connection.json("POST", `/v1/listen/cursors/${as}`, { seq }),
          wait: (ms) => waitFor(ms, over.signal),
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

  function greet(hello: Hello): void {
    place = hello.reset ? hello.after : Math.max(place, hello.after);
    const behind = seqsBetween(place, hello.newest);
    if (isJson) {
      json({ type: "hello", relay: hello.relay, after: hello.after, newest: hello.newest, reset: hello.reset });
      json({ type: "state", state: "live" });
    } else if (isFirst || hello.reset) for (const line of helloLines(hello, { url: relay.url, since: run.since })) io.err(line);
    else io.err(`live again${behind === 0 ? "" : `, ${behind.toLocaleString("en-US")} events behind`}`);
    isFirst = false;
    lastReason = "";
  }

  function showGap(gap: Gap): void {
    // A reconnect repeats it until a later event was taken.
    if (gap.to <= shownGap) return;
    shownGap = gap.to;
    if (isJson) json({ type: "gap", from: gap.from, to: gap.to, count: gap.count });
    else io.out(gapLine(gap));
  }

  function showLoss(error: RelayClientError, ms: number): void {
    const why = (failureOf(error) as Error).message;
    if (isJson) json({ type: "state", state: "waiting", why, ms });
    else if (why !== lastReason) io.err(waitingLine(why, ms));
    lastReason = why;
  }

  async function followRelay(): Promise<void> {
    const steps = follow({
      open: (lastEventId, signal) =>
        connection.stream(`/v1/listen?${query}`, lastEventId === null ? {} : { "last-event-id": lastEventId }, signal),
      read: readListened,
      isPatient: true,
      signal: quitting.signal,
      clock: run.clock,
      random,
    });
    for await (const step of steps) {
      if (step.kind === "connecting" && isJson) json({ type: "state", state: "connecting" });
      if (step.kind === "lost") showLoss(step.error, step.retryInMs);
      if (step.kind !== "message" || step.message === null) continue;
      const { kind, data } = step.message;
      if (kind === "hello") greet(data);
      else if (kind === "gap") showGap(data);
      else if (data.seq > place) {
        if (kind === "event") await forwarder.take(data);
        done(data.seq);
      }
    }
  }

  const following = followRelay().catch((error: unknown) => {
    if (!quitting.signal.aborted) throw failureOf(error);
  });

  try {
    const ended = new Promise<void>((resolve) => {
      quitting.signal.addEventListener("abort", () => void waitFor(lastWordsMs, over.signal).then(resolve));
    });
    await Promise.race([following, ended]);
    if (cursor !== null) await Promise.race([cursor.flush(), waitFor(lastWordsMs, over.signal)]);
  } finally {
    over.abort();
    await targets?.close();
  }
}
