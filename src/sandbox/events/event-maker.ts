import type { EventId, RunId, Wamid } from "../../model/ids.ts";
import { createGrowingIds } from "../ids.ts";
import type { Random } from "../random.ts";
import type { MessageStatus } from "../statuses.ts";
import { automationCompletedData, automationFailedData, type EventData, messageStatusData, truncatedData } from "./event-data.ts";

/** An event envelope as the service sends it (messaging-service-api.md, "Event envelope"). */
export interface SandboxEvent {
  readonly id: EventId;
  readonly event: string;
  readonly createdAt: string;
  readonly data: EventData;
}

export interface EventMaker {
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

/** The bytes posted for an event. */
export function bodyOf(event: SandboxEvent): Buffer {
  return Buffer.from(JSON.stringify(event), "utf8");
}
