import { createHmac } from "node:crypto";
import { bodyOf, type SandboxEvent } from "../../src/sandbox/events/publisher.ts";
import { webhookSecret } from "./relay-settings.ts";
import { longestWaitMs } from "./until.ts";

export interface Posted {
  readonly status: number;
  readonly headers: Headers;
  /** `status` of a 2xx answer or `code` of an error. */
  readonly word: string | undefined;
  readonly tookMs: number;
}

/**
 * Posts one rightly signed event (or any bytes), once. Rejects when no answer comes within
 * `timeoutMs`.
 */
export async function postEvent(
  url: string,
  event: SandboxEvent | Buffer,
  { secret = webhookSecret, timeoutMs = longestWaitMs } = {},
): Promise<Posted> {
  const body = Buffer.isBuffer(event) ? event : bodyOf(event);
  const startedAt = performance.now();
  const answer = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-acme-signature": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
    },
    body: new Uint8Array(body),
    signal: AbortSignal.timeout(timeoutMs),
  });
  const said = (await answer.json()) as { status?: string; code?: string };
  return {
    status: answer.status,
    headers: answer.headers,
    word: said.status ?? said.code,
    tookMs: performance.now() - startedAt,
  };
}
