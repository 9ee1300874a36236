import { type buildConnector, Pool } from "undici/index.js";
import { growingWait } from "../../model/backoff.ts";
import type { Clock } from "../../model/clock.ts";
import type { EventId } from "../../model/ids.ts";
import { readRetryAfter } from "../clock.ts";
import { createSigner, type SigningSettings } from "../signing.ts";
import { createSenderCounts, type Post, type PostResult, readAnswer, type SenderSummary } from "./post-result.ts";
import { createPace } from "./scenario.ts";

export interface SenderSettings {
  /** Where to post: the relay's `/webhooks/{source}`. */
  readonly url: string;
  readonly signature: SigningSettings;
  readonly secret: string;
  readonly clock: Clock;
  readonly concurrency: number;
  /** Posts per second; not given: as fast as `concurrency` allows. */
  readonly rate?: number;
  readonly retry?: SenderRetry;
  /** How long one try may take, in milliseconds (providers give up at 3 to 20 s). */
  readonly timeoutMs?: number;
  /** For `tls.connect`. */
  readonly tls?: buildConnector.BuildOptions;
  /** False: keep no record by event id, for runs of millions. */
  readonly keepAcknowledgements?: boolean;
}

interface RunOptions {
  /** Once aborted, no further post begins and no further try is made. */
  readonly signal?: AbortSignal;
  onResult?(post: Post, result: PostResult): void;
}

export interface Sender {
  /** Posts one, with its retries. Never rejects: what happened is data. */
  post(post: Post, signal?: AbortSignal): Promise<PostResult>;
  /** Posts all, `concurrency` at once; begins in the order given. The summary is of this run. */
  run(posts: Iterable<Post>, options?: RunOptions): Promise<SenderSummary>;
  /** What the relay has said about each event so far, over all runs. */
  readonly acknowledged: ReadonlyMap<EventId, Acknowledgement>;
  close(): Promise<void>;
}

type Try =
  | { readonly status: number; readonly text: string; readonly retryAfter: string | undefined }
  | { readonly error: string; readonly retryAfter?: undefined };

export function createSender(settings: SenderSettings): Sender {
  const { signature, secret, clock, concurrency, rate, retry = usualRetry, timeoutMs = 10_000, keepAcknowledgements = true } = settings;
  const url = new URL(settings.url);
  const path = url.pathname + url.search;
  const pool = new Pool(url.origin, {
    connections: concurrency,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: { ...settings.tls, timeout: timeoutMs },
  });
  const sign = createSigner(signature, secret);
  const acknowledgements = createAcknowledgements();
  let ticks = 0;

  const headersOf = (post: Post): Record<string, string> => {
    const headers = { "content-type": "application/json", "user-agent": "wamid-relay-sandbox" };
    if (post.signature === "absent") return headers;
    // A wrong signature is one over other bytes: it has the right form and proves nothing.
    const body = post.signature === "right" ? post.body : Buffer.concat([post.body, Buffer.from(" ")]);
    const request = { method: "POST", url: settings.url, body, id: post.subject.id, timestampMs: clock.now() };
    return { ...headers, ...sign(request) };
  };
  const tryOnce = async (post: Post): Promise<Try> => {
    try {
      // Signed anew at each try, as the timestamp may be part of it.
      const answer = await pool.request({ method: "POST", path, headers: headersOf(post), body: post.body });
      const retryAfter = answer.headers["retry-after"];
      return {
        status: answer.statusCode,
        text: await answer.body.text(),
        retryAfter: typeof retryAfter === "string" ? retryAfter : undefined,
      };
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      return { error: code ?? message };
    }
  };
  const post: Sender["post"] = async (one, signal) => {
    const stopped = () => signal?.aborted === true;
    const from = ticks++;
    const began = clock.now();
    let tries = 0;
    let last: Try;
    for (;;) {
      last = await tryOnce(one);
      tries += 1;
      if (!("error" in last) && !isWorthRetry(last.status)) break;
      if (tries >= retry.tries || stopped()) break;
      await waitFor(clock, retryWait(retry, tries, last.retryAfter, clock.now()), signal);
      if (stopped()) break;
    }
    const tookMs = clock.now() - began;
    const result: PostResult =
      "error" in last
        ? { kind: "unanswered", error: last.error, tries, tookMs }
        : {
            kind: "answered",
            status: last.status,
            answer: readAnswer(last.status, last.text),
            said: last.text.slice(0, 200),
            tries,
            tookMs,
          };
    if (keepAcknowledgements) acknowledgements.note(one, result, from, ticks++);
    return result;
  };
  return {
    post,
    async run(posts, { signal, onResult } = {}) {
      const counts = createSenderCounts();
      const began = clock.now();
      const pace = rate === undefined ? null : createPace(rate, clock);
      const iterator = posts[Symbol.iterator]();
      const stopped = () => signal?.aborted === true;
      const worker = async () => {
        while (!stopped()) {
          const wait = pace?.();
          if (wait !== undefined) await wait;
          if (stopped()) return;
          const next = iterator.next();
          if (next.done === true) return;
          const result = await post(next.value, signal);
          counts.note(next.value, result);
          onResult?.(next.value, result);
        }
      };
      await Promise.all(Array.from({ length: concurrency }, worker));
      return counts.summary(clock.now() - began);
    },
    acknowledged: acknowledgements.byEvent,
    close: () => pool.destroy(),
  };
}

/** Resolves after `ms`, or at once when `signal` aborts. */
function waitFor(clock: Clock, ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal?.addEventListener("abort", done, { once: true });
  });
}

/** How a sender repeats a post that nothing accepted. The service's own schedule is not shown: this is the sandbox's choice. */
interface SenderRetry {
  /** Tries in all, the first included. */
  readonly tries: number;
  /** Wait before the second try, in milliseconds; doubled each time. */
  readonly firstMs: number;
  /** No wait is longer, whatever Retry-After says. */
  readonly longestMs: number;
}

const usualRetry: SenderRetry = { tries: 6, firstMs: 200, longestMs: 30_000 };

/** True for answers worth another try: the relay's own trouble (5xx). A 4xx stays a 4xx. */
export function isWorthRetry(status: number): boolean {
  return status >= 500;
}

/** Milliseconds to wait after try number `tried` (1 for the first). `retryAfter` is the header, in seconds or as a date. */
export function retryWait(retry: SenderRetry, tried: number, retryAfter: string | undefined, now: number): number {
  return Math.min(retry.longestMs, Math.max(growingWait(tried, retry.firstMs, retry.longestMs), readRetryAfter(retryAfter, now)));
}

/** What the relay has said about one event id, over all posts of it. */
export interface Acknowledgement {
  /** Answers of each kind. More than one `accepted` breaks promise 2 (DESIGN.md, "Promises"). */
  readonly accepted: number;
  readonly duplicate: number;
  /** Posts that ended without a 2xx. */
  readonly refused: number;
  /** True when a post of it was tried more than once: the try whose answer was lost may have been the accepted one. */
  readonly retried: boolean;
  /**
   * Ticks of the sender's own counter between which the event was accepted: an event whose `before`
   * is less than another's `after` was accepted first. `before` is Infinity while there is no 2xx.
   */
  readonly after: number;
  readonly before: number;
}

interface Acknowledgements {
  /** `from` and `to` are the ticks at which the post began and ended. */
  note(post: Post, result: PostResult, from: number, to: number): void;
  /** By event id, the posts that are events and rightly signed. */
  readonly byEvent: ReadonlyMap<EventId, Acknowledgement>;
}

/** The sender's record of what was acknowledged, to compare with what is stored. About 200 bytes an event. */
export function createAcknowledgements(): Acknowledgements {
  const byEvent = new Map<EventId, { -readonly [K in keyof Acknowledgement]: Acknowledgement[K] }>();
  return {
    byEvent,
    note(post, result, from, to) {
      if (post.expected.of !== "event") return;
      let known = byEvent.get(post.expected.id);
      if (known === undefined) {
        known = { accepted: 0, duplicate: 0, refused: 0, retried: false, after: from, before: Number.POSITIVE_INFINITY };
        byEvent.set(post.expected.id, known);
      }
      known.retried ||= result.tries > 1;
      const answer = result.kind === "answered" ? result.answer : null;
      if (answer !== "accepted" && answer !== "duplicate") {
        known.refused += 1;
        if (known.accepted === 0) known.after = Math.min(known.after, from);
        return;
      }
      known[answer] += 1;
      // The answer "accepted" identifies the post; short of that it was some post begun by now.
      if (answer === "accepted") known.after = from;
      else if (known.accepted === 0) known.after = Math.min(known.after, from);
      known.before = Math.min(known.before, to);
    },
  };
}
