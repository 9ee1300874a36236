import type { Clock } from "../model/clock.ts";
import { createPool, type HttpPool } from "../net/connect.ts";
import { codeOf, exchange } from "../net/exchange.ts";

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** `text` is null when the body did not end in time, or below the bound. */
export type Posted =
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly headers: Headers;
      readonly text: string | null;
    }
  | { readonly kind: "unanswered"; readonly reason: string };

interface Call {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  /** The machine's clock: the receiver lives in its time. */
  readonly clock: Clock;
  readonly timeoutMs: number;
}

const maxBytes = 1024 * 1024;

/** Redirects are not followed. Never rejects. */
export async function callUrl(
  pool: HttpPool,
  { url, headers, body, clock, timeoutMs }: Call,
): Promise<Posted> {
  const { pathname, search } = new URL(url);
  const request = {
    path: pathname + search,
    ...(body === undefined ? { method: "GET" } : { method: "POST", body }),
    headers: {
      ...(body !== undefined && { "content-type": "application/json" }),
      "user-agent": "wamid-relay-sandbox",
      ...headers,
    },
  };
  const answer = await exchange(pool, request, {
    timeoutMs,
    maxBytes,
    after: clock.after,
    resends: () => false,
  });
  if (answer.kind === "answered")
    return { ...answer, text: answer.isCut ? null : answer.body.toString("utf8") };
  if (answer.kind === "timeout" && answer.status > 0)
    return { kind: "answered", status: answer.status, headers: {}, text: null };
  return {
    kind: "unanswered",
    reason: answer.kind === "failed" ? codeOf(answer.error) : `no answer within ${timeoutMs} ms`,
  };
}

interface ReceiversOptions extends Pick<Call, "clock" | "timeoutMs"> {
  /** To each host; not given: any number. */
  readonly connections?: number;
}

/** Calls any host. Calls of one `lane` do not wait for another's. */
export function createReceivers({ connections = 0, ...limits }: ReceiversOptions) {
  const pools = new Map<string, HttpPool>();
  return {
    call(url: string, headers: Call["headers"], body?: Buffer, lane = ""): Promise<Posted> {
      const { origin } = new URL(url);
      const name = `${lane} ${origin}`;
      const pool =
        pools.get(name) ??
        createPool(new URL(origin), {
          connections,
          connectWithin: limits.timeoutMs,
          allowPrivate: true,
        });
      pools.set(name, pool);
      return callUrl(pool, { url, headers, body, ...limits });
    },
    async close(): Promise<void> {
      await Promise.all(
        [...pools.values()].map((pool) => pool.destroy(new Error("the sandbox closes"))),
      );
    },
  };
}
