import { type buildConnector, Pool } from "undici/index.js";
import { growingWait } from "../../model/backoff.ts";
import type { Clock } from "../../model/clock.ts";
import { readRetryAfter } from "../clock.ts";
import { createSigner, type SigningSettings } from "../signing.ts";
import { type Answer, type Post, type PostResult, readAnswer } from "./post-result.ts";
import { createPace } from "./scenario.ts";

export interface SenderSettings {
  readonly url: string;
  readonly signature: SigningSettings;
  readonly secret: string;
  readonly clock: Clock;
  readonly concurrency: number;
  /** Per second; not given: as fast as `concurrency` allows. */
  readonly rate?: number;
  readonly retry?: SenderRetry;
  /** Of one try, in milliseconds. */
  readonly timeoutMs?: number;
  readonly tls?: buildConnector.BuildOptions;
}

interface RunOptions {
  /** Once aborted, no further post or try begins. */
  readonly signal?: AbortSignal;
  onResult?(post: Post, result: PostResult): void;
}

export type Sender = ReturnType<typeof createSender>;

type Try =
  | { readonly status: number; readonly text: string; readonly retryAfter: string | undefined }
  | { readonly error: string; readonly retryAfter?: undefined };

export function createSender(settings: SenderSettings) {
  const { signature, secret, clock, concurrency, rate, retry = usualRetry, timeoutMs = 10_000 } = settings;
  const url = new URL(settings.url);
  const path = url.pathname + url.search;
  const pool = new Pool(url.origin, {
    connections: concurrency,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: { ...settings.tls, timeout: timeoutMs },
  });
  const sign = createSigner(signature, secret);

  const headersOf = (post: Post): Record<string, string> => {
    const headers = { "content-type": "application/json", "user-agent": "wamid-relay-sandbox" };
    if (post.signature === "absent") return headers;
    // Over other bytes: it has the right form.
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
  /** Never rejects: what happened is data. */
  const post = async (one: Post, signal?: AbortSignal): Promise<PostResult> => {
    const stopped = () => signal?.aborted === true;
    const began = clock.now();
    let tries = 0;
    let last: Try;
    for (;;) {
      last = await tryOnce(one);
      tries += 1;
      if (!("error" in last) && last.status < 500) break;
      if (tries >= retry.tries || stopped()) break;
      await waitFor(clock, retryWait(retry, tries, last.retryAfter, clock.now()), signal);
      if (stopped()) break;
    }
    const tookMs = clock.now() - began;
    if ("error" in last) return { kind: "unanswered", error: last.error, tries, tookMs };
    const { status, text } = last;
    return { kind: "answered", status, answer: readAnswer(status, text), said: text.slice(0, 200), tries, tookMs };
  };
  return {
    post,
    /** Begins in the order given. Returns how many got which answer. */
    async run(posts: Iterable<Post>, { signal, onResult }: RunOptions = {}) {
      const counts: Record<Answer | "posts", number> = {
        posts: 0,
        accepted: 0,
        duplicate: 0,
        quarantined: 0,
        unassigned: 0,
        unauthorized: 0,
      };
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
          counts.posts += 1;
          if (result.kind === "answered" && result.answer !== null) counts[result.answer] += 1;
          onResult?.(next.value, result);
        }
      };
      await Promise.all(Array.from({ length: concurrency }, worker));
      return counts;
    },
    close: () => pool.destroy(),
  };
}

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

/** The sandbox's choice. */
interface SenderRetry {
  /** In all, the first included. */
  readonly tries: number;
  /** Doubled each time, in milliseconds. */
  readonly firstMs: number;
  /** Whatever Retry-After says. */
  readonly longestMs: number;
}

const usualRetry: SenderRetry = { tries: 6, firstMs: 200, longestMs: 30_000 };

/** Milliseconds; `tried` is 1 after the first. */
function retryWait(retry: SenderRetry, tried: number, retryAfter: string | undefined, now: number): number {
  return Math.min(retry.longestMs, Math.max(growingWait(tried, retry.firstMs, retry.longestMs), readRetryAfter(retryAfter, now)));
}
