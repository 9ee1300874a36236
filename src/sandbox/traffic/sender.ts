import { setTimeout as wait } from "node:timers/promises";
import { type buildConnector, Pool } from "undici/index.js";
import { systemClock } from "../../model/clock.ts";
import { callUrl } from "../post.ts";
import { createSigner, type SigningSettings } from "../signing.ts";
import { type Answer, type Post, type PostResult, readAnswer } from "./answers.ts";
import { createPace } from "./scenario.ts";

export interface SenderSettings {
  readonly url: string;
  readonly signature: SigningSettings;
  readonly secret: string;
  readonly concurrency: number;
  readonly rate?: number;
  /** After no answer and 5xx; the tries in all. Not given: one. */
  readonly retry?: { readonly tries: number; readonly waitMs: number };
  readonly timeoutMs?: number;
  readonly tls?: buildConnector.BuildOptions;
}

interface RunOptions {
  readonly signal?: AbortSignal;
  onResult?(post: Post, result: PostResult): void;
}

export type Sender = ReturnType<typeof createSender>;

export function createSender(settings: SenderSettings) {
  const {
    url,
    signature,
    secret,
    concurrency,
    rate,
    tls,
    retry = { tries: 1, waitMs: 0 },
    timeoutMs = 10_000,
  } = settings;
  const dispatcher = new Pool(new URL(url).origin, {
    connections: concurrency,
    connect: { ...tls, timeout: timeoutMs },
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const sign = createSigner(signature, secret);

  const headersOf = (post: Post): Record<string, string> => {
    if (post.signature === "absent") return {};
    const body =
      post.signature === "right" ? post.body : Buffer.concat([post.body, Buffer.from(" ")]);
    return sign({ method: "POST", url, body, id: post.subject.id, timestampMs: Date.now() });
  };
  const post = async (one: Post, signal?: AbortSignal): Promise<PostResult> => {
    const stopped = () => signal?.aborted === true;
    const began = Date.now();
    for (let tries = 1; ; tries += 1) {
      // Signed anew at each try, as the timestamp may be part of it.
      const posted = await callUrl(dispatcher, {
        url,
        headers: headersOf(one),
        body: one.body,
        clock: systemClock,
        timeoutMs,
      });
      const text = posted.kind === "answered" ? posted.text : null;
      const isLast = posted.kind === "answered" && text !== null && posted.status < 500;
      if (!isLast && tries < retry.tries && !stopped()) {
        await wait(retry.waitMs, null, { ...(signal && { signal }) }).catch(() => {});
        if (!stopped()) continue;
      }
      const about = { tries, tookMs: Date.now() - began };
      if (posted.kind === "unanswered")
        return { kind: "unanswered", error: posted.reason, ...about };
      if (text === null) return { kind: "unanswered", error: "the answer broke off", ...about };
      return {
        kind: "answered",
        status: posted.status,
        answer: readAnswer(posted.status, text),
        said: text.slice(0, 200),
        ...about,
      };
    }
  };
  return {
    post,
    async run(posts: Iterable<Post>, { signal, onResult }: RunOptions = {}) {
      const counts: Record<Answer | "posts", number> = {
        posts: 0,
        accepted: 0,
        duplicate: 0,
        quarantined: 0,
        unassigned: 0,
        unauthorized: 0,
      };
      const pace = rate === undefined ? null : createPace(rate, systemClock);
      const iterator = posts[Symbol.iterator]();
      const stopped = () => signal?.aborted === true;
      const worker = async () => {
        while (!stopped()) {
          await pace?.();
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
