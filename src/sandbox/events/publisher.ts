import type { Clock } from "../../model/clock.ts";
import type { EventId } from "../../model/ids.ts";
import { isReported } from "../statuses.ts";
import type { EventRecord, MessageRecord, RunRecord } from "../world/records.ts";
import { eventBody, messageStatusData } from "./event-maker.ts";

export interface Publisher {
  messageStatus(message: MessageRecord): void;
  /** The document shows no event for it; Meta has one. */
  messageReceived(message: MessageRecord): void;
  runEnded(run: RunRecord): void;
  /** For what the document does not show. `data` says which message or run it is about. */
  publish(account: string, event: string, data: Readonly<Record<string, unknown>>): void;
}

export interface PublisherParts {
  readonly clock: Clock;
  readonly ids: () => string;
  /** Stores an event, with a delivery for every webhook URL subscribed to its kind. */
  readonly emit: (record: EventRecord) => void;
}

export function createPublisher({ clock, ids, emit }: PublisherParts): Publisher {
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
