import { hash, randomUUID } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import {
  type Attributes,
  type HrTime,
  ROOT_CONTEXT,
  type SpanContext,
  type SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  RandomIdGenerator,
  SamplingDecision,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Logger, Privacy } from "./logger.ts";
import type { TracesSettings } from "./settings.ts";

/** What identifies the trace of an event. `headers` are those stored with it. */
export interface TracedEvent {
  readonly account: string;
  readonly eventId: string;
  readonly headers: Readonly<Record<string, string>> | null;
}

export interface EndedSpan {
  readonly name: string;
  readonly kind: SpanKind;
  /** Null: the first span of its trace. */
  readonly parent: SpanContext | null;
  readonly tookMs: number;
  readonly attributes: Attributes;
  /** Why it failed; undefined when it did not. */
  readonly error?: string | undefined;
}

export interface TracesParts {
  readonly settings: TracesSettings & { readonly endpoint: string };
  readonly version: string;
  readonly log: Logger;
  readonly privacy: Pick<Privacy, "text">;
}

export type Traces = ReturnType<typeof createTraces>;

/** Ended spans that wait for the collector: about 4 MB. Further ones are dropped. */
const mostWaiting = 4096;
const exportEveryMs = 1_000;
/** One export with its retries, and the last one when the relay stops. */
const exportWithinMs = 3_000;
/** A text of the sender's or of a destination's may be long. */
const longestAttribute = 1_024;

/**
 * Sends spans to an OTLP collector in batches. Every span is recorded when it is over, so nothing
 * is held while it lasts. Nothing waits for the collector: what it does not take in time is
 * dropped, and logged once until it takes spans again.
 */
export function createTraces({ settings, version, log, privacy }: TracesParts) {
  const { endpoint, headers, sampleRatio, serviceName } = settings;
  const random = new RandomIdGenerator();
  const sampler = new TraceIdRatioBasedSampler(sampleRatio);
  let hasFailed = false;
  /** Ids of the span that is recorded now. */
  let ids: Pick<SpanContext, "traceId" | "spanId"> = { traceId: "", spanId: "" };
  const exporter = new OTLPTraceExporter({
    url: collectorUrl(endpoint),
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, value.reveal()]),
    ),
    timeoutMillis: exportWithinMs,
  });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      "service.name": serviceName,
      "service.version": version,
      "service.instance.id": randomUUID(),
    }),
    idGenerator: { generateTraceId: () => ids.traceId, generateSpanId: () => ids.spanId },
    spanLimits: { attributeValueLengthLimit: longestAttribute },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: reportFailures(exporter, log, privacy),
        maxQueueSize: mostWaiting,
        scheduledDelayMillis: exportEveryMs,
        exportTimeoutMillis: 2 * exportWithinMs,
      }),
    ],
  });
  const tracer = provider.getTracer("wamid-relay", version);

  function isSampled(traceId: string): boolean {
    return (
      sampler.shouldSample(ROOT_CONTEXT, traceId).decision === SamplingDecision.RECORD_AND_SAMPLED
    );
  }

  /** A new span in the trace of `parent`, or in a trace of its own. */
  function childOf(parent: SpanContext | null): SpanContext {
    if (parent !== null)
      return {
        traceId: parent.traceId,
        spanId: random.generateSpanId(),
        traceFlags: parent.traceFlags,
      };
    const traceId = random.generateTraceId();
    return {
      traceId,
      spanId: random.generateSpanId(),
      traceFlags: isSampled(traceId) ? TraceFlags.SAMPLED : TraceFlags.NONE,
    };
  }

  function record(
    context: SpanContext,
    { name, kind, parent, tookMs, attributes, error }: EndedSpan,
  ): void {
    const endTime = Date.now();
    ids = context;
    const within = parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
    const span = tracer.startSpan(
      name,
      { kind, startTime: hrTime(endTime - tookMs), attributes },
      within,
    );
    if (error !== undefined)
      span.setStatus({ code: SpanStatusCode.ERROR, message: error.slice(0, longestAttribute) });
    span.end(hrTime(endTime));
  }

  return {
    childOf,
    /**
     * The first span of an event's trace. Any process can compute it at any time, so it is not
     * stored. The trace is the sender's if the webhook had a `traceparent`.
     */
    rootOf({ account, eventId, headers: stored }: TracedEvent): SpanContext {
      // In one call: an object for each hash costs three times as much.
      const digits = hash("sha256", `wamid-relay trace\0${account}\0${eventId}`);
      const spanId = digits.slice(32, 48);
      const sender = readTraceparent(stored?.["traceparent"]);
      if (sender !== null) return { ...sender, spanId, isRemote: false };
      const traceId = digits.slice(0, 32);
      return {
        traceId,
        spanId,
        traceFlags: isSampled(traceId) ? TraceFlags.SAMPLED : TraceFlags.NONE,
      };
    },
    /**
     * Records a span with these ids, if it is sampled. Never throws: a fault here must not become
     * one of the event.
     */
    record(context: SpanContext, ended: () => EndedSpan): void {
      if ((context.traceFlags & TraceFlags.SAMPLED) === 0) return;
      try {
        record(context, ended());
      } catch (error) {
        if (!hasFailed)
          log.error({ err: error }, "a span cannot be recorded; later ones are not reported");
        hasFailed = true;
      }
    },
    /** Sends what waits, for at most a few seconds. */
    async close(): Promise<void> {
      await Promise.race([
        provider.shutdown().catch(() => {}),
        wait(exportWithinMs, undefined, { ref: false }),
      ]);
    },
  };
}

/**
 * Of unix ms with fractions. A plain number below the process's start would count as time since
 * then.
 */
function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}

function collectorUrl(endpoint: string): string {
  const url = new URL(endpoint);
  if (!/\/v1\/traces\/?$/.test(url.pathname))
    url.pathname = `${url.pathname.replace(/\/$/, "")}/v1/traces`;
  return url.href;
}

/**
 * W3C Trace Context, level 1: version, trace id, span id, flags. Later versions may append more.
 */
const traceparent =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/;

/** Null when it is absent or invalid. */
export function readTraceparent(text: unknown): SpanContext | null {
  const match = typeof text === "string" && text.length <= 128 ? traceparent.exec(text) : null;
  if (match === null) return null;
  const [, traceId = "", spanId = "", flags = ""] = match;
  return {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED,
    isRemote: true,
  };
}

export function traceparentOf({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & TraceFlags.SAMPLED}`;
}

/** Logs the first failed export, and the first that works again. */
function reportFailures(
  exporter: SpanExporter,
  log: Logger,
  privacy: Pick<Privacy, "text">,
): SpanExporter {
  let lost = 0;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        if (result.error !== undefined || result.code !== 0) {
          if (lost === 0) {
            const reason = privacy.text(result.error?.message ?? "no reason given");
            log.warn(
              { reason },
              "the traces collector takes no spans; they are dropped until it does",
            );
          }
          lost += spans.length;
        } else if (lost > 0) {
          log.info({ lost }, "the traces collector takes spans again");
          lost = 0;
        }
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}
