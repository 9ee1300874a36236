import { Agent } from "undici";
import type { Opened } from "./follow.ts";
import type { RelayAddress } from "./relay-address.ts";

/** Longest wait for a connection, and for the first bytes of an answer. */
const patienceMs = 20_000;

/**
 * Opens `GET /v1/listen`, on a connection of its own: one that was cut somewhere on the way is not used again. The body
 * is read only as fast as it is taken. Rejects with the connection's error.
 */
export async function openStream(relay: RelayAddress, query: URLSearchParams, after: number | null, signal: AbortSignal): Promise<Opened> {
  const agent = new Agent({
    allowH2: false,
    connect: { timeout: patienceMs },
    headersTimeout: patienceMs,
    // Silence is the watchdog's, which knows of sleep.
    bodyTimeout: 0,
  });
  const close = (): void => void agent.destroy().catch(() => {});
  try {
    const { statusCode, headers, body } = await agent.request({
      origin: relay.url,
      path: `${new URL(relay.url).pathname.replace(/\/$/, "")}/v1/listen?${query}`,
      method: "GET",
      headers: {
        accept: "text/event-stream",
        authorization: `Bearer ${relay.token()}`,
        ...(after === null ? {} : { "last-event-id": String(after) }),
      },
      signal,
    });
    if (statusCode === 200 && String(headers["content-type"]).startsWith("text/event-stream")) return { ok: true, body, close };
    const text = await body.text().catch(() => "");
    close();
    return refused(relay.url, statusCode, text, Number(headers["retry-after"]));
  } catch (error) {
    close();
    throw error;
  }
}

function refused(url: string, status: number, text: string, retryAfter: number): Opened {
  const told = errorOf(text);
  const why =
    told === null ? `what answers at ${url} is no wamid-relay that can be listened to (status ${status})` : `the relay says: ${told}`;
  // A relay that starts, or a proxy before it, answers 5xx.
  return { ok: false, why, retryAfterMs: Number.isFinite(retryAfter) ? retryAfter * 1000 : null, lasting: status < 500 && status !== 429 };
}

function errorOf(text: string): string | null {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    return typeof error === "string" ? error : null;
  } catch {
    return null;
  }
}
