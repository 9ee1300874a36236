import { type Clock, pause } from "../model/clock.ts";
import type { Settlement, StoredDelivery } from "../model/delivery.ts";
import { formatOf, readContent } from "../model/formats/formats.ts";
import { deliveryId } from "../model/ids.ts";
import { asciiJson, isObject, parseVerbatim } from "../model/json.ts";
import { faultText } from "../model/mask.ts";
import {
  type AttemptReport,
  type Decision,
  decide,
  type LaneHooks,
  type SettlingDecision,
  settledBy,
} from "./decide.ts";
import {
  type AttemptOutcome,
  failedAttempt,
  type OutgoingDelivery,
} from "./destinations/destination.ts";
import type { DestinationSession, Health } from "./health.ts";
import { type ReadyQueue, storeRetryMs } from "./ready-queue.ts";
import type { Payload } from "./settings.ts";

/**
 * A settlement that fails this often while the store is available is the fault of this delivery.
 */
const settleTries = 3;

/** Timers ignore clock changes and sleep, so what is due is checked at least this often. */
export const longestWaitMs = 60_000;

interface AttemptsParts {
  readonly route: string;
  readonly health: Health;
  readonly queue: Pick<ReadyQueue, "settle" | "putBack">;
  readonly clock: Clock;
  readonly random: () => number;
  readonly hooks: LaneHooks;
  readonly maySend: () => boolean;
  readonly closing: AbortSignal;
  readonly changed: () => void;
}

export type Attempts = ReturnType<typeof createAttempts>;

export function createAttempts({
  route,
  health,
  queue,
  clock,
  random,
  hooks,
  maySend,
  closing,
  changed,
}: AttemptsParts) {
  let inFlight = 0;
  let settling = 0;
  const idle = Promise.withResolvers<void>();
  const isIdle = (): boolean => inFlight + settling === 0;
  const count = (by: 1 | -1): void => {
    settling += by;
    changed();
  };
  const settlingParts = { settle: queue.settle, clock, hooks, closing, count };

  async function attempt(on: DestinationSession, delivery: StoredDelivery): Promise<void> {
    inFlight += 1;
    const phase = on.breaker.phase();
    const startedAt = clock.now();
    const { outgoing, outcome, unsendable } = await sendOver(on, delivery, hooks, maySend);
    inFlight -= 1;
    const now = clock.now();
    const decision: Decision =
      unsendable === null
        ? decide(outcome.result, delivery.spent + 1, on.settings.to.retry, now, random)
        : { kind: "dead", reason: unsendable };
    const report = { delivery, outgoing, outcome, decision };
    health.record(on, report, phase);
    try {
      hooks.attempted(report);
    } catch (error) {
      hooks.failed(delivery, "report", error);
    }
    count(1);
    if (decision.kind !== "interrupted") await settle(on, { ...report, decision }, startedAt, now);
    else queue.putBack(delivery.event);
    settling -= 1;
    if (closing.aborted && isIdle()) idle.resolve();
    changed();
  }

  function settle(
    on: DestinationSession,
    {
      delivery,
      outgoing,
      outcome,
      decision,
    }: AttemptReport & { readonly decision: SettlingDecision },
    startedAt: number,
    now: number,
  ): Promise<void> {
    const { event, eventId, receivedAt, replays } = delivery;
    return settleAttempt(settlingParts, delivery, {
      route,
      event,
      eventId,
      attempt: { number: outgoing.attempt, at: startedAt, ...outcome },
      settled: settledBy(decision, now),
      at: now,
      ...(replays === 0 ? { receivedAt } : {}),
      ...(decision.kind === "stop" ? { stop: decision.reason } : {}),
      ...health.changes(on, decision),
    });
  }

  return {
    inFlight: () => inFlight,
    hasRoom(): boolean {
      const { concurrency } = health.session().settings.to;
      return inFlight < concurrency && settling < 4 * concurrency;
    },
    start(delivery: StoredDelivery): void {
      attempt(health.session(), delivery).catch((error: unknown) =>
        hooks.failed(delivery, "report", error),
      );
    },
    isIdle,
    ended: async (): Promise<void> => (isIdle() ? undefined : await idle.promise),
  };
}

interface SettlingParts {
  readonly settle: (settlement: Settlement) => Promise<unknown>;
  readonly clock: Clock;
  readonly hooks: Pick<LaneHooks, "storeFailed" | "failed">;
  readonly closing: AbortSignal;
  /** A settlement that waits for long counts no longer (-1), until it has ended (1). */
  readonly count?: (by: 1 | -1) => void;
}

/**
 * An outcome that an available store rejects makes the delivery dead, or keeps it in memory: not
 * sent again, and blocking none.
 */
export async function settleAttempt(
  { settle, clock, hooks, closing, count = () => {} }: SettlingParts,
  delivery: StoredDelivery,
  settlement: Settlement,
): Promise<void> {
  let isCounted = true;
  try {
    for (let tries = 1; ; tries++) {
      try {
        await settle(settlement);
        return;
      } catch (error) {
        if (error instanceof Error && error.name === "StoreUnavailable") tries = 0;
        if (tries < settleTries) hooks.storeFailed(settlement.route, error);
        else if (await bury(error)) return;
        // At shutdown it stays waiting in the store and is sent again (at least once).
        if (closing.aborted) return;
        if (tries >= settleTries && isCounted) {
          isCounted = false;
          count(-1);
        }
        if (isCounted) await new Promise<void>((resolve) => clock.after(storeRetryMs, resolve));
        else await pause(clock, longestWaitMs, closing).catch(() => {});
      }
    }
  } finally {
    if (!isCounted) count(1);
  }

  async function bury(fault: unknown): Promise<boolean> {
    hooks.failed(delivery, "settle", fault);
    const { route, event, attempt, settled, at } = settlement;
    const { eventId } = delivery;
    const reason = `${settled.to === "delivered" ? "delivered, which" : "the outcome of its attempt"} could not be stored: ${faultText(fault)}`;
    try {
      await settle({
        route,
        event,
        eventId,
        attempt: { ...attempt, response: null },
        settled: { to: "dead", reason },
        at,
      });
      return true;
    } catch {
      return false;
    }
  }
}

/** Never rejects. `unsendable`: why it was not sent and is not retried. */
async function sendOver(
  session: DestinationSession,
  delivery: StoredDelivery,
  hooks: Pick<LaneHooks, "composed" | "failed">,
  maySend?: () => boolean,
) {
  const { payload, to } = session.settings;
  let outgoing: OutgoingDelivery;
  try {
    outgoing = compose(delivery, payload, to.passSignature);
    if (hooks.composed !== undefined) outgoing = hooks.composed(delivery, outgoing);
  } catch (error) {
    hooks.failed(delivery, "compose", error);
    const unsendable = `could not be composed: ${faultText(error)}`;
    return {
      outgoing: composeOriginal(delivery, to.passSignature),
      outcome: internal(error),
      unsendable,
    };
  }
  try {
    return {
      outgoing,
      outcome: await session.destination.send(outgoing, maySend),
      unsendable: null,
    };
  } catch (error) {
    hooks.failed(delivery, "send", error);
    return { outgoing, outcome: internal(error), unsendable: null };
  }
}

const internal = (error: unknown): AttemptOutcome => failedAttempt("internal", faultText(error), 0);

export function compose(
  delivery: StoredDelivery,
  payload: Payload,
  passSignature: boolean,
): OutgoingDelivery {
  const original = composeOriginal(delivery, passSignature);
  if (payload === "original") return original;
  const outgoing =
    delivery.format === undefined ? original : { ...original, body: standardBody(delivery) };
  if (payload === "standard") return outgoing;
  const part = relayPart(delivery, outgoing.id);
  return {
    ...outgoing,
    body: enrich(
      outgoing.body,
      delivery.origin === "webhook" ? part : { ...ownRelay(delivery), ...part },
    ),
  };
}

function standardBody({ format, eventId, kind, body, receivedAt }: StoredDelivery): Buffer {
  const content = readContent(format, body);
  const { raw } = formatOf(format);
  if (content === null || raw === undefined) return body;
  const data = { ...content.data, raw: raw(body) };
  const createdAt = content.createdAt ?? new Date(receivedAt).toISOString();
  return Buffer.from(
    asciiJson(JSON.stringify({ id: eventId, event: kind, createdAt, data })),
    "latin1",
  );
}

/** Of an event that the relay made. */
function ownRelay({ body }: StoredDelivery): object | undefined {
  return (JSON.parse(body.toString("utf8")) as { readonly relay?: object }).relay;
}

function withoutRelay(body: Buffer): Buffer {
  // The key may have escapes.
  if (!body.includes('"relay"') && !body.includes("\\u00")) return body;
  try {
    const value = parseVerbatim(body.toString("utf8"));
    if (!isObject(value) || !Object.hasOwn(value, "relay")) return body;
    const { relay: _, ...others } = value;
    return Buffer.from(JSON.stringify(others), "utf8");
  } catch {
    return body;
  }
}

function composeOriginal(delivery: StoredDelivery, passSignature: boolean): OutgoingDelivery {
  const id = deliveryId(delivery.account, delivery.eventId, delivery.route);
  const {
    "content-type": contentType = "application/json",
    "content-encoding": contentEncoding = null,
    // The sender's: each attempt has its own.
    traceparent: _,
    ...signature
  } = delivery.headers;
  return {
    id,
    event: delivery.kind,
    eventId: delivery.eventId,
    attempt: delivery.attempts + 1,
    replays: delivery.replays,
    body: delivery.body,
    contentType,
    contentEncoding,
    passHeaders: passSignature ? signature : noHeaders,
  };
}

const noHeaders = {};

function relayPart(delivery: StoredDelivery, id: string): Record<string, unknown> {
  const { subject } = delivery;
  const part: Record<string, unknown> = {
    deliveryId: id,
    route: delivery.route,
    origin: delivery.origin,
    source: delivery.source,
    account: delivery.account,
    receivedAt: new Date(delivery.receivedAt).toISOString(),
  };
  if (subject !== null) {
    part[subject.type] = {
      tracked: subject.tracked,
      ...(subject.type === "message" ? { id: subject.id } : {}),
      reference: subject.reference,
      metadata: subject.metadata,
      previousStatus: subject.previousStatus,
      transition: subject.moved,
    };
  }
  const { hydration } = delivery;
  if (hydration !== undefined) {
    part["truncated"] = true;
    part["hydration"] = hydration;
  }
  return part;
}

const space = new Set([0x20, 0x09, 0x0a, 0x0d]);

/**
 * On bytes, because serializing again would change big numbers and escapes. What is no JSON object
 * stays as it is.
 */
export function enrich(received: Buffer, relay: Readonly<Record<string, unknown>>): Buffer {
  const body = withoutRelay(received);
  let end = body.length - 1;
  while (end >= 0 && space.has(body[end] as number)) end -= 1;
  let start = 0;
  while (start < end && space.has(body[start] as number)) start += 1;
  if (end < 1 || body[end] !== 0x7d || body[start] !== 0x7b) return body;
  let last = end - 1;
  while (last > start && space.has(body[last] as number)) last -= 1;
  const separator = last === start ? "" : ",";
  return Buffer.concat([
    body.subarray(0, end),
    Buffer.from(`${separator}"relay":${JSON.stringify(relay)}}`, "utf8"),
  ]);
}
