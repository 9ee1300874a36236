import type { SourceSettings } from "../config/schema.ts";
import type { Destination } from "../deliver/destinations/destination.ts";
import type { UrlDestinationSettings } from "../deliver/settings.ts";
import { RelayError } from "../event/errors.ts";
import { deliveryId } from "../event/ids.ts";
import type { ReceivedEvent } from "../event/received.ts";
import type { Settlement } from "../event/stored-delivery.ts";
import type { ProxiedAnswer } from "../receive/accepting.ts";

export interface ProxyingParts {
  /** A destination that keeps whole answers, up to `answerLimit`. */
  readonly connect: (to: UrlDestinationSettings) => Destination;
  readonly now: () => number;
  /** Makes the event durable, with a delivery on `route` that no dispatcher picks up; gives its seq. */
  readonly accept: (event: ReceivedEvent, route: string) => Promise<number>;
  readonly settle: (settlement: Settlement) => Promise<unknown>;
  readonly failed: (error: unknown) => void;
}

export interface Proxying {
  exchange(event: ReceivedEvent): Promise<ProxiedAnswer>;
  reload(sources: Readonly<Record<string, SourceSettings>>): void;
  close(): Promise<void>;
}

/** The name under which a proxied exchange stands among the deliveries. No route can be called so. */
export function proxyRoute(source: string): string {
  return `proxy:${source}`;
}

/** Most bytes of a downstream's answer that are passed back. */
export const answerLimit = 1024 * 1024;

/**
 * `mode: proxy`: the automation step waits for the downstream's answer. The request is stored first and
 * the exchange recorded as a delivery with one attempt; it is never retried, because the step has been
 * told of the failure and goes on by its error exit.
 */
export function createProxying(sources: Readonly<Record<string, SourceSettings>>, parts: ProxyingParts): Proxying {
  let lines = open(sources);
  const abort = new AbortController();

  function open(from: Readonly<Record<string, SourceSettings>>): Map<string, { to: UrlDestinationSettings; destination: Destination }> {
    const entries = Object.entries(from).flatMap(([name, source]) =>
      source.kind === "automation-request" && source.mode === "proxy" && source.to !== undefined
        ? [[name, { to: source.to, destination: parts.connect(source.to) }] as const]
        : [],
    );
    return new Map(entries);
  }

  return {
    async exchange(event) {
      const line = lines.get(event.source);
      if (line === undefined) throw new RelayError("not_found", "no such source");
      const route = proxyRoute(event.source);
      const seq = await parts.accept(event, route);
      const at = parts.now();
      const { "content-type": contentType = "application/json", ...signature } = event.headers;
      const outcome = await line.destination.send(
        {
          id: deliveryId(event.account, event.envelope.id, route),
          event: event.envelope.event,
          eventId: event.envelope.id,
          attempt: 1,
          replay: false,
          body: event.body,
          contentType,
          passHeaders: line.to.passSignature ? signature : {},
        },
        abort.signal,
      );
      const { result } = outcome;
      const delivered = result.kind === "answered" && result.status < 300;
      const response = outcome.response?.subarray(0, 4096) ?? null;
      parts
        .settle({
          route,
          event: seq,
          attempt: { number: 1, at, tookMs: outcome.tookMs, result, response },
          settled: delivered ? { to: "delivered" } : { to: "dead", reason: "proxied: the step was told of the failure" },
          at: parts.now(),
        })
        .catch(parts.failed);
      if (result.kind === "answered") {
        return { status: result.status, contentType: outcome.responseType ?? null, body: outcome.response ?? Buffer.alloc(0) };
      }
      if (result.error === "timeout") throw new RelayError("downstream_timeout", "the destination did not answer in time");
      throw new RelayError("downstream_failed", `the destination gave no answer (${result.error})`);
    },
    reload(next) {
      const old = lines;
      lines = open(next);
      // An exchange takes at most its timeout; until then the old connections stay.
      for (const { to, destination } of old.values()) setTimeout(() => void destination.close(), to.timeout + 1_000).unref();
    },
    async close() {
      abort.abort();
      await Promise.all([...lines.values()].map(({ destination }) => destination.close()));
    },
  };
}
