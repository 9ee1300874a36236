import type { Clock } from "../../model/clock.ts";
import type { EventId } from "../../model/ids.ts";
import type { Limits } from "../limits/limits.ts";
import { isReported } from "../statuses.ts";
import {
  type AccountRecord,
  type DeliveryRecord,
  type EventRecord,
  type MessageRecord,
  plans,
  type WebhookRecord,
} from "../world/records.ts";
import type { World } from "../world/world.ts";
import type { DeliveryFaults } from "./delivery-faults.ts";
import { eventBody, messageStatusData } from "./event-maker.ts";
import { type Posting, pendingPostOf } from "./posting.ts";

export interface Publisher {
  messageStatus(message: MessageRecord): void;
  /** The document shows no event for it; Meta has one. */
  messageReceived(message: MessageRecord): void;
  automationCompleted(account: string, runId: string): void;
  automationFailed(account: string, runId: string, error: string): void;
  /** For what the document does not show. Without `about`, `data` says what it is about. */
  publish(
    account: string,
    event: string,
    data: Readonly<Record<string, unknown>>,
    about?: { readonly wamid?: string; readonly runId?: string },
  ): void;
}

interface EmitSettings {
  readonly world: World;
  readonly ids: () => string;
  readonly limits: Pick<Limits, "spend">;
  readonly drawFaults: () => DeliveryFaults;
  readonly posting: Pick<Posting, "add" | "hasRoom">;
}

/** Stores an event, with a delivery for every webhook URL subscribed to its kind. */
export function createEmit({ world, ids, limits, drawFaults, posting }: EmitSettings): (record: EventRecord) => void {
  const deliver = (account: AccountRecord, webhook: WebhookRecord, event: EventRecord): void => {
    const faults = drawFaults();
    const dropped = (): string | null => {
      // Counts against the quota whatever becomes of it ("Events", 4 and 5).
      if (!limits.spend(account, "webhookDeliveries")) return "monthly quota of webhook deliveries used up";
      if (faults.drop) return "fault: drop";
      return posting.hasRoom(webhook.id) ? null : "too many deliveries wait for this URL";
    };
    const reason = dropped();
    const delivery: DeliveryRecord = {
      id: ids(),
      account: account.id,
      createdAt: event.createdAt,
      eventId: event.id,
      webhookId: webhook.id,
      status: reason === null ? "waiting" : "dropped",
      reason,
      tries: 0,
      answered: null,
      nextAt: event.createdAt,
    };
    world.deliveries.put(delivery);
    if (reason === null) posting.add(pendingPostOf(delivery, event, faults));
  };
  return (record) => {
    world.events.put(record);
    const owner = world.accounts.get(record.account);
    if (owner === undefined || !plans[owner.plan].api) return;
    for (const webhook of world.webhooks.list(record.account)) {
      if (isOn(webhook) && isSubscribed(webhook.events, record.event)) deliver(owner, webhook, record);
    }
  };
}

export function isOn({ isEnabled, meta }: WebhookRecord): boolean {
  return isEnabled && meta?.isVerified !== false;
}

interface PublisherSettings {
  readonly clock: Clock;
  readonly ids: () => string;
  readonly emit: (record: EventRecord) => void;
  readonly onError: (error: unknown) => void;
}

export function createPublisher({ clock, ids, emit, onError }: PublisherSettings): Publisher {
  const publish: Publisher["publish"] = (account, event, data, about = {}) => {
    try {
      const createdAt = clock.now();
      const id = ids();
      const body = eventBody({ id: id as EventId, event, createdAt: new Date(createdAt).toISOString() }, data);
      const wamid = about.wamid ?? textOf(data["wamid"]);
      const runId = about.runId ?? textOf(data["runId"]);
      emit({ id, account, createdAt, event, wamid, runId, body });
    } catch (error) {
      onError(error);
    }
  };
  return {
    publish,
    messageStatus({ account, wamid, status, errorCode }) {
      if (!isReported(status)) return;
      const data = messageStatusData(wamid, status, status === "failed" ? errorCode : undefined);
      publish(account, "message.status", data, { wamid });
    },
    messageReceived() {},
    // The sandbox's choice: the document shows no payload of these.
    automationCompleted: (account, runId) => publish(account, "automation.completed", { runId }, { runId }),
    automationFailed: (account, runId, error) => publish(account, "automation.failed", { runId, error }, { runId }),
  };
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

/** `kinds` may have `*`, or families such as `message.*`. */
export function isSubscribed(kinds: readonly string[], event: string): boolean {
  return kinds.some((kind) => kind === event || kind === "*" || (kind.endsWith(".*") && event.startsWith(kind.slice(0, -1))));
}
