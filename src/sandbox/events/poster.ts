import type { Clock } from "../../model/clock.ts";
import { retryAfterMs } from "../../net/exchange.ts";
import { createReceivers, type Posted } from "../post.ts";
import { createSigner } from "../signing.ts";
import type { WebhookRecord } from "../world.ts";

export interface PostOrder extends Pick<ObservedPost, "eventId" | "body" | "sort"> {
  readonly webhook: WebhookRecord;
}

/**
 * One post to a webhook URL and its answer. Tries, copies and spoilt posts are posts of their own.
 */
export interface ObservedPost {
  readonly url: string;
  readonly eventId: string;
  readonly body: Buffer;
  /** `event`: rightly signed. The others are what faults add. */
  readonly sort: "event" | "malformed" | "wrongly-signed";
  readonly answered: number | null;
  /**
   * Both count begins and ends: a post whose `ended` is less than another's `began` was over before
   * it.
   */
  readonly began: number;
  readonly ended: number;
}

interface PosterSettings {
  readonly baseClock: Clock;
  readonly timeoutMs: number;
  readonly connections: number;
  readonly onPost: (post: ObservedPost) => void;
}

export type Poster = ReturnType<typeof createPoster>;

export function createPoster({ baseClock, timeoutMs, connections, onPost }: PosterSettings) {
  /**
   * Each webhook has its own connections, so that a URL that hangs does not hold up another on its
   * host.
   */
  const receivers = createReceivers({ clock: baseClock, timeoutMs, connections });
  let isClosed = false;
  let number = 0;

  return {
    /** Null: the sandbox closed meanwhile. */
    async post({
      webhook: { id, url, secret, signature },
      eventId,
      body,
      sort,
    }: PostOrder): Promise<Posted | null> {
      if (isClosed) return null;
      number += 1;
      const began = number;
      // A wrong signature is one over other bytes: it has the right form and proves nothing.
      const signed = sort === "wrongly-signed" ? Buffer.concat([body, Buffer.from(" ")]) : body;
      const request = {
        method: "POST",
        url,
        body: signed,
        id: eventId,
        timestampMs: baseClock.now(),
      };
      const headers = createSigner(signature, secret)(request);
      const posted = await receivers.call(url, headers, body, id);
      if (isClosed) return null;
      number += 1;
      // The status line decides, even when the body does not end.
      onPost({
        url,
        eventId,
        body,
        sort,
        answered: posted.kind === "answered" ? posted.status : null,
        began,
        ended: number,
      });
      return posted;
    },
    close(): Promise<void> {
      isClosed = true;
      return receivers.close();
    },
  };
}

export interface EventRetry {
  readonly waitsMs: readonly number[];
  readonly isTaken: (status: number) => boolean;
  readonly longestMs: number;
}

export const usualEventRetry: EventRetry = {
  waitsMs: [1_000, 5_000, 30_000, 120_000, 600_000],
  longestMs: 600_000,
  isTaken: (status) => status >= 200 && status <= 299,
};

const minute = 60_000;
const hour = 60 * minute;
export const metaRetry: EventRetry = {
  waitsMs: [
    1_000,
    5_000,
    30_000,
    2 * minute,
    10 * minute,
    hour,
    3 * hour,
    8 * hour,
    ...Array<number>(13).fill(12 * hour),
  ],
  longestMs: 0,
  isTaken: (status) => status === 200,
};

/** `waitMs`: until the next try; null: there is none. */
export function afterTry(
  answer: Posted,
  tries: number,
  { isTaken, waitsMs, longestMs }: EventRetry,
  speed: number,
  now: number,
) {
  if (answer.kind === "answered" && isTaken(answer.status))
    return { status: "delivered", reason: null, waitMs: null } as const;
  const reason = answer.kind === "answered" ? `answered ${answer.status}` : answer.reason;
  const planned = waitsMs[tries - 1];
  if (planned === undefined) {
    const text = `${reason}; given up after ${tries} ${tries === 1 ? "try" : "tries"}`;
    return { status: "failed", reason: text, waitMs: null } as const;
  }
  // What the receiver asks for is in its own seconds: not divided. The bound is ours: it is.
  const asked =
    answer.kind === "answered"
      ? retryAfterMs(answer.headers["retry-after"], now, longestMs / speed)
      : null;
  return { status: "waiting", reason, waitMs: Math.max(planned / speed, asked ?? 0) } as const;
}
