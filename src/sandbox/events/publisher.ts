import type { EventId, RunId, Wamid } from "../../model/ids.ts";
import { createGrowingIds, type Random } from "../ids.ts";
import { isReported, type MessageStatus } from "../statuses.ts";
import type { Core, EventRecord, MessageRecord, RunRecord } from "../world.ts";

export interface Publisher {
  messageStatus(message: MessageRecord): void;
  messageReceived(message: MessageRecord): void;
  runEnded(run: RunRecord): void;
  /** For what the document does not show. `data` says which message or run it is about. */
  publish(account: string, event: string, data: Readonly<Record<string, unknown>>): void;
}

/** Stores an event, with a delivery for every webhook URL subscribed to its kind. */
export type Emit = (record: EventRecord) => void;

export function createPublisher({ owned }: Core, emit: Emit): Publisher {
  const publish: Publisher["publish"] = (account, event, data) => {
    const own = owned(account);
    const body = eventBody(
      { id: own.id as EventId, event, createdAt: new Date(own.createdAt).toISOString() },
      data,
    );
    const textIn = (key: string) => (typeof data[key] === "string" ? data[key] : null);
    emit({
      ...own,
      event,
      wamid: textIn("wamid"),
      runId: textIn("runId"),
      status: textIn("status"),
      body,
    });
  };
  return {
    publish,
    messageStatus({ account, wamid, status, errorCode }) {
      if (!isReported(status)) return;
      publish(account, "message.status", {
        wamid,
        status,
        errorCode: status === "failed" ? errorCode : undefined,
      });
    },
    messageReceived() {},
    runEnded({ account, id: runId, error }) {
      if (error === null) publish(account, "automation.completed", { runId });
      else publish(account, "automation.failed", { runId, error });
    },
  };
}

export interface SandboxEvent {
  readonly id: EventId;
  readonly event: string;
  readonly createdAt: string;
  readonly data: EventData;
}

export function createEventMaker({ clock, random }: { clock: () => number; random: Random }) {
  const growingId = createGrowingIds({ now: clock, random });
  const make = (event: string, data: SandboxEvent["data"]): SandboxEvent => {
    const now = clock();
    return { id: growingId() as EventId, event, createdAt: new Date(now).toISOString(), data };
  };
  return {
    messageStatus: (wamid: Wamid, status: MessageStatus, errorCode?: string | number) =>
      make("message.status", { wamid, status, errorCode }),
    automationCompleted: (runId: RunId) => make("automation.completed", { runId }),
    automationFailed: (runId: RunId, error: string) => make("automation.failed", { runId, error }),
    truncated: (event: string, size: number) => make(event, truncatedData(size)),
    runId: () => growingId() as RunId,
  };
}

export function bodyOf(event: SandboxEvent): Buffer {
  return Buffer.from(JSON.stringify(event), "utf8");
}

export const mostDataBytes = 256 * 1024;

export function eventBody(envelope: Omit<SandboxEvent, "data">, data: EventData): string {
  const size = Buffer.byteLength(JSON.stringify(data));
  return JSON.stringify({ ...envelope, data: size > mostDataBytes ? truncatedData(size) : data });
}

export function truncatedBody(body: string): Buffer {
  const event = JSON.parse(body) as SandboxEvent;
  const { data } = event;
  return bodyOf({
    ...event,
    data:
      data["truncated"] === true ? data : truncatedData(Buffer.byteLength(JSON.stringify(data))),
  });
}

type EventData = Readonly<Record<string, unknown>>;

export function truncatedData(size: number): EventData {
  return { truncated: true, id: null, size };
}
