// By its file: Bun replaces "undici" by a part of it.
import { type buildConnector, Pool } from "undici/index.js";
import type { Clock } from "../../model/clock.ts";
import type { EventId } from "../../model/ids.ts";
import { createSigner, type SigningSettings } from "../signing.ts";
import { type Acknowledgement, createAcknowledgements } from "./acknowledgements.ts";
import { createPace } from "./pace.ts";
import type { Post } from "./post.ts";
import { createSenderCounts, type PostResult, readAnswer, type SenderSummary } from "./post-result.ts";
import { isWorthRetry, retryWait, type SenderRetry, usualRetry } from "./retry.ts";

export interface SenderSettings {
  /** Where to post: the relay's `/webhooks/{source}`. */
  readonly url: string;
  readonly signature: SigningSettings;
  readonly secret: string;
  readonly clock: Clock;
  /** Posts in flight at once, each on a connection of its own. */
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

export interface RunOptions {
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

/** Posts signed events as the messaging service does. */
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
