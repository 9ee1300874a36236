import { Pool } from "undici/index.js";
import type { Clock } from "../../model/clock.ts";
import { signAsMeta } from "../meta/callbacks.ts";
import { postJson, receiverConnection } from "../post.ts";
import { createSigner } from "../signing.ts";
import type { WebhookRecord } from "../world/records.ts";
import type { Answer } from "./after-try.ts";

export interface PostOrder {
  /** Read at each post: a rotated secret applies at once. */
  readonly webhook: WebhookRecord;
  readonly eventId: string;
  readonly body: Buffer;
  readonly signature: "right" | "wrong";
  readonly isMalformed?: boolean;
}

export interface Poster {
  post(order: PostOrder): Promise<Answer>;
  forget(webhookId: string): void;
  /** What is in flight, and every later post, ends as `cut`. */
  close(): Promise<void>;
}

interface PosterSettings {
  readonly baseClock: Clock;
  readonly timeoutMs: number;
  readonly connections: number;
}

/** Made anew when the webhook's URL, secret or signature changed. */
interface Place {
  readonly url: string;
  readonly secret: string;
  readonly signature: WebhookRecord["signature"];
  readonly origin: string;
  readonly pool: Pool;
  readonly sign: ReturnType<typeof createSigner>;
}

/** Each webhook has its own connections, so that a URL that hangs does not hold up another on its host. */
export function createPoster({ baseClock, timeoutMs, connections }: PosterSettings): Poster {
  const places = new Map<string, Place>();
  const retired = new Set<Pool>();
  let isClosed = false;

  const retire = (pool: Pool): void => {
    retired.add(pool);
    const done = () => void retired.delete(pool);
    pool.close().then(done, done);
  };
  const placeOf = (webhook: WebhookRecord): Place => {
    const { id, url, secret, signature } = webhook;
    const known = places.get(id);
    if (known !== undefined && known.url === url && known.secret === secret && known.signature === signature) return known;
    const sign = webhook.meta !== undefined && signature.preset === "meta" ? signAsMeta(secret) : createSigner(signature, secret);
    const { origin } = new URL(url);
    const isSameOrigin = known?.origin === origin;
    const pool = isSameOrigin ? known.pool : new Pool(origin, { connections, ...receiverConnection() });
    if (known !== undefined && !isSameOrigin) retire(known.pool);
    const place = { url, secret, signature, origin, pool, sign };
    places.set(id, place);
    return place;
  };
  const answerTo = async ({ webhook, eventId, body, signature }: PostOrder): Promise<Answer> => {
    const { url } = webhook;
    const { pool, sign } = placeOf(webhook);
    // A wrong signature is one over other bytes: it has the right form and proves nothing.
    const signed = signature === "right" ? body : Buffer.concat([body, Buffer.from(" ")]);
    // The sandbox's choice: the machine's time, which receivers compare with.
    const headers = sign({ method: "POST", url, body: signed, id: eventId, timestampMs: baseClock.now() });
    // The status line decides, even when the body does not end.
    const posted = await postJson({ dispatcher: pool, url, headers, body, clock: baseClock, timeoutMs });
    if (posted.kind === "unanswered") return posted;
    return { kind: "answered", status: posted.status, retryAfter: posted.headers["retry-after"] };
  };
  return {
    async post(order) {
      try {
        const answer: Answer = isClosed ? { kind: "cut" } : await answerTo(order);
        return isClosed ? { kind: "cut" } : answer;
      } catch (error) {
        // A URL that is none, or a secret not in the encoding of its signature.
        return { kind: "unanswered", reason: (error as Error).message };
      }
    },
    forget(webhookId) {
      const place = places.get(webhookId);
      places.delete(webhookId);
      if (place !== undefined) retire(place.pool);
    },
    async close() {
      isClosed = true;
      const pools = [...[...places.values()].map(({ pool }) => pool), ...retired];
      places.clear();
      await Promise.all(pools.map((pool) => pool.destroy()));
    },
  };
}

/** One post to a webhook URL and its answer. Tries, copies and spoilt posts are posts of their own. */
export interface ObservedPost {
  readonly url: string;
  readonly eventId: string;
  readonly body: Buffer;
  /** `event`: rightly signed. The others are what faults add. */
  readonly sort: "event" | "malformed" | "wrongly-signed";
  readonly answered: number | null;
  /** Both count begins and ends: a post whose `ended` is less than another's `began` was over before it. */
  readonly began: number;
  readonly ended: number;
}

/** Posts that closing cut off are not reported. */
export function observePosts(poster: Poster, report: (post: ObservedPost) => void): Poster {
  let number = 0;
  return {
    ...poster,
    async post(order) {
      number += 1;
      const began = number;
      const answer = await poster.post(order);
      number += 1;
      const ended = number;
      if (answer.kind === "cut") return answer;
      const { webhook, eventId, body, signature, isMalformed = false } = order;
      const sort = signature === "wrong" ? "wrongly-signed" : isMalformed ? "malformed" : "event";
      report({ url: webhook.url, eventId, body, sort, answered: answer.kind === "answered" ? answer.status : null, began, ended });
      return answer;
    },
  };
}
