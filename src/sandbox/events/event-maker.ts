import type { EventId, RunId, Wamid } from "../../model/ids.ts";
import { createGrowingIds, type Random } from "../ids.ts";
import type { MessageStatus } from "../statuses.ts";

export interface SandboxEvent {
  readonly id: EventId;
  readonly event: string;
  readonly createdAt: string;
  readonly data: EventData;
}

/** `clock` gives unix milliseconds; ids grow even when it stands still. */
export function createEventMaker({ clock, random }: { clock: () => number; random: Random }) {
  const growingId = createGrowingIds({ now: clock, random });
  const make = (event: string, data: SandboxEvent["data"]): SandboxEvent => {
    const now = clock();
    return { id: growingId() as EventId, event, createdAt: new Date(now).toISOString(), data };
  };
  return {
    messageStatus: (wamid: Wamid, status: MessageStatus, errorCode?: string | number) =>
      make("message.status", messageStatusData(wamid, status, errorCode)),
    automationCompleted: (runId: RunId) => make("automation.completed", { runId }),
    automationFailed: (runId: RunId, error: string) => make("automation.failed", { runId, error }),
    truncated: (event: string, size: number) => make(event, truncatedData(size)),
    runId: () => growingId() as RunId,
  };
}

export function bodyOf(event: SandboxEvent): Buffer {
  return Buffer.from(JSON.stringify(event), "utf8");
}

/** The sandbox's choice: a KB is 1,024 bytes of `data` as JSON ("Events", 3). */
export const mostDataBytes = 256 * 1024;

export function eventBody(envelope: Omit<SandboxEvent, "data">, data: EventData): string {
  const size = Buffer.byteLength(JSON.stringify(data));
  return JSON.stringify({ ...envelope, data: size > mostDataBytes ? truncatedData(size) : data });
}

export function truncatedBody(body: string): Buffer {
  const event = JSON.parse(body) as SandboxEvent;
  const { data } = event;
  return bodyOf({ ...event, data: data["truncated"] === true ? data : truncatedData(Buffer.byteLength(JSON.stringify(data))) });
}

type EventData = Readonly<Record<string, unknown>>;

/** The sandbox's choice, but for `wamid`: the document does not show the payload. `errorCode` is sent for `failed` only. */
export function messageStatusData(wamid: string, status: MessageStatus, errorCode?: string | number): EventData {
  return errorCode === undefined ? { wamid, status } : { wamid, status, errorCode };
}

/** "Events", 3; `size` in bytes. */
export function truncatedData(size: number): EventData {
  return { truncated: true, id: null, size };
}
