import type { Dispatcher } from "undici";
import { buildConnector, Pool } from "undici/index.js";
import type { Clock } from "../../model/clock.ts";
import { mostInterim, takingContinue } from "../../net/connect.ts";
import { lookupFunction } from "../../net/name-lookup.ts";
import { signAsMeta } from "../meta/callbacks.ts";
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
  readonly path: string;
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
    // The sandbox's choice: the machine's time, which receivers compare with.
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

type Controller = Dispatcher.DispatchController;
type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2];

const mostAnswerBytes = 64 * 1024;

/** One post under one deadline. The status line decides, even when the body does not end. A class, as there is one for each post. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #resolve: (answer: Answer) => void;
  readonly #timeoutMs: number;
  readonly #cancelDeadline: () => void;
  #controller: Controller | null = null;
  #isOver = false;
  #status = 0;
  #retryAfter: string | undefined;
  #read = 0;
  #interim = 0;

  constructor(clock: Clock, timeoutMs: number, resolve: (answer: Answer) => void) {
    this.#resolve = resolve;
    this.#timeoutMs = timeoutMs;
    this.#cancelDeadline = clock.after(timeoutMs, () => this.#expire());
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    // Time was up before there was a connection.
    if (this.#isOver) controller.abort(new Error("too late"));
  }

  onResponseStart(controller: Controller, status: number, headers: Headers): void {
    if (status < 200) {
      this.#interim += 1;
      if (this.#interim <= mostInterim) return;
      this.#end(`more than ${mostInterim} interim answers (1xx)`);
      controller.abort(new Error("too many interim answers"));
      return;
    }
    this.#status = status;
    const retryAfter = headers["retry-after"];
    this.#retryAfter = typeof retryAfter === "string" ? retryAfter : retryAfter?.[0];
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    this.#read += chunk.length;
    if (this.#read <= mostAnswerBytes) return;
    this.#end("");
    controller.abort(new Error("the answer is too long"));
  }

  onResponseEnd(): void {
    this.#end("");
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    this.#end("code" in error && typeof error.code === "string" ? error.code : error.message);
  }

  #expire(): void {
    this.#end(`no answer within ${this.#timeoutMs} ms`);
    this.#controller?.abort(new Error("no answer in time"));
  }

  #end(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelDeadline();
    this.#resolve(
      this.#status === 0
        ? { kind: "unanswered", reason: reason.slice(0, 200) }
        : { kind: "answered", status: this.#status, retryAfter: this.#retryAfter },
    );
  }
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
