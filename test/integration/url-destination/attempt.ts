import { setImmediate as nextTurn } from "node:timers/promises";
import { onTestFinished } from "vitest";
import type { OutgoingDelivery } from "../../../src/deliver/destinations/destination.ts";
import {
  createUrlDestination,
  routeUrlSchema,
  type UrlDestination,
  type UrlOutcome,
} from "../../../src/deliver/destinations/url.ts";
import type { DeliveryId } from "../../../src/model/ids.ts";
import type { ConnectorOptions } from "../../../src/net/connect.ts";

/** A destination that may reach loopback and ends with the test. */
export function destinationTo(
  url: string,
  settings: Record<string, unknown> = {},
  connector?: ConnectorOptions,
): UrlDestination {
  const parsed = routeUrlSchema.parse({ url, allowPrivate: true, ...settings });
  const destination = createUrlDestination(parsed, Date.now, undefined, connector);
  onTestFinished(() => destination.close());
  return destination;
}

export const delivery: OutgoingDelivery = {
  id: "dlv_01998d3e7c1a7000800000000000002a_3c7a1014837c" as DeliveryId,
  event: "message.status",
  eventId: "01998d3e-7c1a-7000-8000-00000000002a",
  attempt: 1,
  replays: 0,
  body: Buffer.from('{"id":"01998d3e-7c1a-7000-8000-00000000002a","event":"message.status"}'),
  contentType: "application/json",
  contentEncoding: null,
  passHeaders: {},
};

/**
 * One attempt, and the turn of the event loop in which undici frees its connection. A lane starts
 * the next one no earlier.
 */
export async function attempt(
  destination: UrlDestination,
  change: Partial<OutgoingDelivery> = {},
  maySend?: () => boolean,
): Promise<UrlOutcome> {
  const outcome = await destination.send({ ...delivery, ...change }, maySend);
  await nextTurn();
  return outcome;
}

/**
 * An outcome as one line: `200`, `503 retry-after 1000`, `failed timeout: no answer within 100 ms`.
 */
export function told(outcome: UrlOutcome): string {
  const { result, response } = outcome;
  if (result.kind === "failed") return `failed ${result.error}: ${response?.toString() ?? ""}`;
  return `${result.status}${result.retryAfterMs === null ? "" : ` retry-after ${result.retryAfterMs}`}`;
}
