import type { IncomingHttpHeaders } from "node:http";
// By its file: Bun replaces "undici" by a part of it.
import { buildConnector, type Dispatcher } from "undici/index.js";
import type { Clock } from "../model/clock.ts";
import { takingContinue } from "../net/connect.ts";
import { lookupFunction } from "../net/name-lookup.ts";

/** `text` is null when the body did not end in time, or below the bound. */
export type Posted =
  | { readonly kind: "answered"; readonly status: number; readonly headers: IncomingHttpHeaders; readonly text: string | null }
  | { readonly kind: "unanswered"; readonly reason: string };

interface Call {
  readonly dispatcher: Dispatcher;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Posted as JSON; not given: a GET. */
  readonly body?: Buffer;
  /** The machine's clock: the receiver lives in its time. */
  readonly clock: Clock;
  readonly timeoutMs: number;
}

export function receiverConnection() {
  return { allowH2: false, connect: takingContinue(buildConnector({ lookup: lookupFunction(), allowH2: false })) } as const;
}

const mostAnswerBytes = 1024 * 1024;

/** Under one deadline. Redirects are not followed. Never rejects. */
export async function callUrl({ dispatcher, url, headers, body, clock, timeoutMs }: Call): Promise<Posted> {
  const deadline = new AbortController();
  const cancelDeadline = clock.after(timeoutMs, () => deadline.abort(new Error(`no answer within ${timeoutMs} ms`)));
  const { signal } = deadline;
  try {
    const { origin, pathname, search } = new URL(url);
    const answer = await dispatcher.request({
      origin,
      path: pathname + search,
      ...(body === undefined ? { method: "GET" } : { method: "POST", body }),
      headers: { ...(body !== undefined && { "content-type": "application/json" }), "user-agent": "wamid-relay-sandbox", ...headers },
      headersTimeout: 0,
      bodyTimeout: 0,
      signal,
    });
    const text = await textOf(answer.body).catch(() => null);
    return { kind: "answered", status: answer.statusCode, headers: answer.headers, text };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return { kind: "unanswered", reason: (typeof code === "string" ? code : message).slice(0, 200) };
  } finally {
    cancelDeadline();
  }
}

async function textOf(body: AsyncIterable<Buffer>): Promise<string | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    // Leaving the loop closes the connection.
    if (size > mostAnswerBytes) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
