import type { EventId } from "../../model/ids.ts";
import { isReported } from "../statuses.ts";
import type { EventRecord, MessageRecord, RunRecord } from "../world/records.ts";
import type { Core } from "../world/world.ts";
import { eventBody, messageStatusData } from "./event-maker.ts";

export interface Publisher {
  messageStatus(message: MessageRecord): void;
  /** The document shows no event for it; Meta has one. */
  messageReceived(message: MessageRecord): void;
  runEnded(run: RunRecord): void;
  /** For what the document does not show. `data` says which message or run it is about. */
  publish(account: string, event: string, data: Readonly<Record<string, unknown>>): void;
}

/** Stores an event, with a delivery for every webhook URL subscribed to its kind. */
export type Emit = (record: EventRecord) => void;

export function createPublisher({ clock, ids }: Core, emit: Emit): Publisher {
  const publish: Publisher["publish"] = (account, event, data) => {
    const createdAt = clock.now();
    const id = ids();
    const body = eventBody({ id: id as EventId, event, createdAt: new Date(createdAt).toISOString() }, data);
    emit({ id, account, createdAt, event, wamid: textOf(data["wamid"]), runId: textOf(data["runId"]), body });
  };
  return {
    publish,
    messageStatus({ account, wamid, status, errorCode }) {
      if (!isReported(status)) return;
      publish(account, "message.status", messageStatusData(wamid, status, status === "failed" ? errorCode : undefined));
    },
    messageReceived() {},
    // The sandbox's choice: the document shows no payload of a run that completed.
    runEnded({ account, id: runId, error }) {
      if (error === null) publish(account, "automation.completed", { runId });
      else publish(account, "automation.failed", { runId, error });
    },
  };
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
