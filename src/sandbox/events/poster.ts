// By its file: Bun replaces "undici" by a part of it.
import { buildConnector, Pool } from "undici/index.js";
import type { Clock } from "../../model/clock.ts";
import { takingContinue } from "../../net/connect.ts";
import { lookupFunction } from "../../net/name-lookup.ts";
import { signAsMeta } from "../meta/sign.ts";
import { createSigner } from "../signing.ts";
import type { WebhookRecord } from "../world/records.ts";
import type { Answer } from "./after-try.ts";
import { Exchange } from "./exchange.ts";

export interface PostOrder {
  /** Read at the time of the post: a rotated secret applies at once. */
  readonly webhook: WebhookRecord;
  readonly eventId: string;
  readonly body: Buffer;
  readonly signature: "right" | "wrong";
  /** The body is no envelope any more. Not given: it is one. */
  readonly isMalformed?: boolean;
}

/** Posts events to webhook URLs, signed. */
export interface Poster {
  /** One post. Never rejects: what happened is data. */
  post(order: PostOrder): Promise<Answer>;
  /** Closes the connections of a deleted webhook. */
  forget(webhookId: string): void;
  /** Cuts what is in flight: it ends as `cut`, and so does every later post. */
  close(): Promise<void>;
}

export interface PosterSettings {
  /** The machine's: deadlines, and the time that is signed. */
  readonly baseClock: Clock;
  /** How long a receiver has, connecting included. */
  readonly timeoutMs: number;
  /** At once, to one webhook URL. */
  readonly connections: number;
}

/** A webhook as last seen; made anew when its URL, its secret or its way to sign has changed. */
interface Place {
  readonly url: string;
  readonly secret: string;
  readonly signature: WebhookRecord["signature"];
  readonly origin: string;
  readonly path: string;
  readonly pool: Pool;
  readonly sign: ReturnType<typeof createSigner>;
}

/** Connections are each webhook's own, so that a URL that hangs does not hold up another on the same host. */
export function createPoster({ baseClock, timeoutMs, connections }: PosterSettings): Poster {
  const places = new Map<string, Place>();
  /** Closed, with posts still in flight. */
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
    const { origin, pathname, search } = new URL(url);
    const isSameOrigin = known?.origin === origin;
    const pool = isSameOrigin
      ? known.pool
      : new Pool(origin, {
          connections,
          allowH2: false,
          connect: takingContinue(buildConnector({ timeout: timeoutMs, lookup: lookupFunction(), allowH2: false })),
        });
    if (known !== undefined && !isSameOrigin) retire(known.pool);
    const place = { url, secret, signature, origin, path: pathname + search, pool, sign };
    places.set(id, place);
    return place;
  };
  const begin = ({ webhook, eventId, body, signature }: PostOrder, resolve: (answer: Answer) => void): void => {
    const { pool, path, sign } = placeOf(webhook);
    // A wrong signature is one over other bytes: it has the right form and proves nothing.
    const signed = signature === "right" ? body : Buffer.concat([body, Buffer.from(" ")]);
    // The time signed is the machine's, as receivers compare it with theirs: the sandbox's choice.
    const request = { method: "POST", url: webhook.url, body: signed, id: eventId, timestampMs: baseClock.now() };
    const headers = { "content-type": "application/json", "user-agent": "wamid-relay-sandbox", ...sign(request) };
    const exchange = new Exchange(baseClock, timeoutMs, resolve);
    pool.dispatch({ method: "POST", path, headers, body, headersTimeout: 0, bodyTimeout: 0 }, exchange);
  };
  return {
    post: (order) =>
      new Promise((resolve) => {
        const settle = (answer: Answer) => resolve(isClosed ? { kind: "cut" } : answer);
        if (isClosed) return settle({ kind: "cut" });
        try {
          begin(order, settle);
        } catch (error) {
          // A URL that is none, or a secret not in the encoding of its signature.
          settle({ kind: "unanswered", reason: (error as Error).message });
        }
      }),
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
