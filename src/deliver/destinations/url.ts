import { keptResponseBytes } from "../../model/delivery.ts";
import { relayVersion } from "../../model/version.ts";
import type { UrlDestinationSettings } from "../settings.ts";
import { asMetaSends } from "./as-meta-sends.ts";
import { type ConnectorOptions, createConnections, createConnector } from "./connections.ts";
import { createDeliveryHeaders } from "./delivery-headers.ts";
import { always, InFlight, type UrlDestination, type UrlOutcome } from "./destination.ts";
import { Exchange } from "./exchange.ts";
import { createRejection } from "./rejections.ts";

/**
 * A destination that is a URL: each delivery is one POST (docs/reference/event-formats.md). `clock` gives unix milliseconds.
 * `connector` is for tests. `keep` bytes of an answer are kept.
 */
export function createUrlDestination(
  settings: UrlDestinationSettings,
  clock: () => number,
  connector: ConnectorOptions = { allowPrivate: settings.allowPrivate },
  keep = keptResponseBytes,
): UrlDestination {
  const url = new URL(settings.url);
  const path = `${url.pathname}${url.search}`;
  const headersOf = createDeliveryHeaders(settings, relayVersion());
  const connections = createConnections(url.origin, settings.concurrency, createConnector(url, { tls: settings.tls, ...connector }));
  const { timeout, maxRetryAfter } = settings;
  const place = { connections, timeout, maxRetryAfter, keep, clock };
  const rejection = settings.failIfBody === undefined ? null : createRejection(settings.failIfBody);
  const inFlight = new InFlight();
  let isClosed = false;

  return {
    send(delivery, signal, maySend = always) {
      if (isClosed || signal.aborted) return Promise.resolve(neverSent);
      return new Promise((resolve) => {
        const sent = settings.signature === undefined ? delivery : asMetaSends(delivery);
        const request = { method: "POST" as const, path, headers: headersOf(sent, clock()), body: sent.body };
        const exchange = new Exchange(place, request, { signal, maySend }, (outcome) => {
          inFlight.remove(exchange);
          resolve(rejection === null ? outcome : rejection(outcome));
        });
        inFlight.add(exchange);
        exchange.start();
      });
    },
    async close() {
      isClosed = true;
      const closed = connections.close();
      inFlight.abortAll();
      await closed;
    },
  };
}

const neverSent: UrlOutcome = {
  result: { kind: "failed", error: "aborted" },
  tookMs: 0,
  response: Buffer.from("the relay was shutting down"),
};
