import type { EventId, RunId, Wamid } from "../../model/ids.ts";
import { createGrowingIds, type Random } from "../ids.ts";
import type { MessageStatus } from "../statuses.ts";

/** An event envelope as the service sends it (messaging-service-api.md, "Event envelope"). */
export interface SandboxEvent {
  readonly id: EventId;
  readonly event: string;
  readonly createdAt: string;
  readonly data: EventData;
}

interface EventMaker {
  /** `errorCode` is sent for `failed` only: a number or text, as providers mix them. */
  messageStatus(wamid: Wamid, status: MessageStatus, errorCode?: string | number): SandboxEvent;
  automationCompleted(runId: RunId): SandboxEvent;
  automationFailed(runId: RunId, error: string): SandboxEvent;
  /** What arrives in place of data over 256 KB ("Events", 3); `size` in bytes. */
  truncated(event: string, size: number): SandboxEvent;
  runId(): RunId;
}

/**
 * Makes events whose ids grow and never repeat. `clock` gives unix milliseconds; a clock that stands
 * still or steps back does not make ids do so.
 */
export function createEventMaker({ clock, random }: { clock: () => number; random: Random }): EventMaker {
  const growingId = createGrowingIds({ now: clock, random });
  const make = (event: string, data: SandboxEvent["data"]): SandboxEvent => {
    const now = clock();
    return { id: growingId() as EventId, event, createdAt: new Date(now).toISOString(), data };
  };
  return {
    messageStatus: (wamid, status, errorCode) => make("message.status", messageStatusData(wamid, status, errorCode)),
    automationCompleted: (runId) => make("automation.completed", automationCompletedData(runId)),
    automationFailed: (runId, error) => make("automation.failed", automationFailedData(runId, error)),
    truncated: (event, size) => make(event, truncatedData(size)),
    runId: () => growingId() as RunId,
  };
}

export function bodyOf(event: SandboxEvent): Buffer {
  return Buffer.from(JSON.stringify(event), "utf8");
}

/**
 * "Events", 3: `data` over 256 KB arrives truncated. That a KB is 1,024 bytes, counted over `data` alone as
 * JSON in UTF-8, is the sandbox's choice.
 */
export const mostDataBytes = 256 * 1024;

/** The envelope as sent. Throws a TypeError for data that JSON cannot hold. */
export function eventBody(envelope: Omit<SandboxEvent, "data">, data: EventData): string {
  const text = JSON.stringify(data);
  // A UTF-16 unit takes three bytes at most: nearly all data needs no count.
  const size = text.length * 3 <= mostDataBytes ? 0 : Buffer.byteLength(text, "utf8");
  const sent = size > mostDataBytes ? JSON.stringify(truncatedData(size)) : text;
  const { id, event, createdAt } = envelope;
  return `{"id":${JSON.stringify(id)},"event":${JSON.stringify(event)},"createdAt":"${createdAt}","data":${sent}}`;
}

export function truncatedBody(body: string): Buffer {
  const event = JSON.parse(body) as SandboxEvent;
  if (event.data["truncated"] === true) return Buffer.from(body, "utf8");
  return bodyOf({ ...event, data: truncatedData(Buffer.byteLength(JSON.stringify(event.data), "utf8")) });
}

type EventData = Readonly<Record<string, unknown>>;

/**
 * "Events": the message is identified by `wamid`; the full payload is not shown. `status` and `errorCode`
 * (for `failed` only: a number or text, as providers mix them) are the sandbox's choice.
 */
export function messageStatusData(wamid: string, status: MessageStatus, errorCode?: string | number): EventData {
  return errorCode === undefined ? { wamid, status } : { wamid, status, errorCode };
}

/** "Events": the payload is not shown; `{runId}` is the sandbox's choice. */
export function automationCompletedData(runId: string): EventData {
  return { runId };
}

export function automationFailedData(runId: string, error: string): EventData {
  return { runId, error };
}

/** What arrives in place of data over 256 KB ("Events", 3); `size` in bytes. */
export function truncatedData(size: number): EventData {
  return { truncated: true, id: null, size };
}
