import { type buildConnector, Pool } from "undici/index.js";
import { type Clock, growingWait, systemClock } from "../../model/clock.ts";
import { retryAfterMs } from "../../net/exchange.ts";
import { postJson } from "../post.ts";
import { createSigner, type SigningSettings } from "../signing.ts";
import { type Answer, type Post, type PostResult, readAnswer } from "./answers.ts";
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

export function createSender(settings: SenderSettings) {
  const { signature, secret, clock, concurrency, rate, retry = usualRetry, timeoutMs = 10_000 } = settings;
  const { url, tls } = settings;
  const dispatcher = new Pool(new URL(url).origin, { connections: concurrency, connect: { ...tls, timeout: timeoutMs } });
  const sign = createSigner(signature, secret);

  const headersOf = (post: Post): Record<string, string> => {
    if (post.signature === "absent") return {};
    // Over other bytes: it has the right form.
    const body = post.signature === "right" ? post.body : Buffer.concat([post.body, Buffer.from(" ")]);
    return sign({ method: "POST", url, body, id: post.subject.id, timestampMs: clock.now() });
  };
  /** Never rejects: what happened is data. */
  const post = async (one: Post, signal?: AbortSignal): Promise<PostResult> => {
    const stopped = () => signal?.aborted === true;
    const began = clock.now();
    for (let tries = 1; ; tries += 1) {
      // Signed anew at each try, as the timestamp may be part of it.
      const posted = await postJson({ dispatcher, url, headers: headersOf(one), body: one.body, clock: systemClock, timeoutMs });
      const text = posted.kind === "answered" ? posted.text : null;
      const isLast = posted.kind === "answered" && text !== null && posted.status < 500;
      if (!isLast && tries < retry.tries && !stopped()) {
        const retryAfter = posted.kind === "answered" ? posted.headers["retry-after"] : undefined;
        await waitFor(clock, retryWait(retry, tries, retryAfter, clock.now()), signal);
        if (!stopped()) continue;
      }
      const about = { tries, tookMs: clock.now() - began };
      if (posted.kind === "unanswered") return { kind: "unanswered", error: posted.reason, ...about };
      if (text === null) return { kind: "unanswered", error: "the answer broke off", ...about };
      return { kind: "answered", status: posted.status, answer: readAnswer(posted.status, text), said: text.slice(0, 200), ...about };
    }
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
    close: () => dispatcher.destroy(),
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

interface SenderRetry {
  /** In all, the first included. */
  readonly tries: number;
  /** Doubled each time, in milliseconds. */
  readonly firstMs: number;
  /** Whatever Retry-After says. */
  readonly longestMs: number;
}

const usualRetry: SenderRetry = { tries: 6, firstMs: 200, longestMs: 30_000 };

function retryWait(retry: SenderRetry, tried: number, retryAfter: string | undefined, now: number): number {
  const { firstMs, longestMs } = retry;
  return Math.max(growingWait(tried, firstMs, longestMs), retryAfterMs(retryAfter, now, longestMs) ?? 0);
}
