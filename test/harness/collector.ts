import { createServer, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { listen } from "../integration/url-destination/downstream.ts";

/** A span as the relay sent it. */
export interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first of a trace. */
  readonly parentSpanId: string;
  /** As in OTLP: 1 internal, 2 server, 3 client, 4 producer. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** The text of a failed span; null for others. */
  readonly error: string | null;
  readonly tookMs: number;
  readonly service: unknown;
}

/** An OTLP/HTTP collector. */
export interface Collector {
  /** For `traces.endpoint`. */
  readonly url: string;
  readonly port: number;
  readonly spans: readonly Span[];
  /** Bodies as received. */
  readonly bodies: readonly string[];
  readonly headers: readonly IncomingMessage["headers"][];
  /** Requests with any answer. */
  count(): number;
  named(name: string): Span[];
}

type Value = {
  readonly stringValue?: string;
  readonly intValue?: number;
  readonly boolValue?: boolean;
  readonly doubleValue?: number;
};
type Attribute = { readonly key: string; readonly value: Value };
interface WireSpan extends Pick<Span, "name" | "traceId" | "spanId" | "kind"> {
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly Attribute[];
  readonly status: { readonly code: number; readonly message?: string };
}
interface Wire {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly WireSpan[] }[];
  }[];
}

/** `answer`: the status of each answer; null leaves the request without one. */
export async function openCollector(
  answer: () => number | null = () => 200,
  port = 0,
): Promise<Collector> {
  const spans: Span[] = [];
  const bodies: string[] = [];
  const headers: IncomingMessage["headers"][] = [];
  const server = createServer({ keepAliveTimeout: 600_000 });
  let count = 0;
  server.on("request", async (request, response) => {
    const body = await text(request);
    count += 1;
    const status = answer();
    if (status === null) return;
    if (status === 200) {
      if (request.url !== "/v1/traces") throw new Error(`not the path of OTLP: ${request.url}`);
      bodies.push(body);
      headers.push(request.headers);
      spans.push(...spansIn(JSON.parse(body) as Wire));
    }
    response.writeHead(status, { "content-type": "application/json" }).end("{}");
  });
  const { port: listening } = await listen(server, "127.0.0.1", port);
  const named = (name: string) => spans.filter((span) => span.name === name);
  return {
    url: `http://127.0.0.1:${listening}`,
    port: listening,
    spans,
    bodies,
    headers,
    count: () => count,
    named,
  };
}

function spansIn({ resourceSpans }: Wire): Span[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(
        ({
          name,
          traceId,
          spanId,
          parentSpanId = "",
          kind,
          attributes,
          status,
          startTimeUnixNano,
          endTimeUnixNano,
        }) => ({
          name,
          traceId,
          spanId,
          parentSpanId,
          kind,
          attributes: valuesOf(attributes),
          error: status.code === 2 ? (status.message ?? "") : null,
          tookMs: Number(BigInt(endTimeUnixNano) - BigInt(startTimeUnixNano)) / 1e6,
          service: valuesOf(resource.attributes)["service.name"],
        }),
      ),
    ),
  );
}

function valuesOf(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
