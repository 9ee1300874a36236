import { createHash } from "node:crypto";
import type { Envelope } from "./envelope.ts";
import type { AccountName, EventId, SourceName, Wamid } from "./ids.ts";
import type { Origin, ReceivedEvent } from "./received.ts";
import { type FieldPaths, subjectOf } from "./subject.ts";

/** A status that the relay learned by asking, instead of by a webhook. */
export interface LearnedStatus {
  readonly account: AccountName;
  /** The source whose webhook should have told it. */
  readonly source: SourceName;
  /** Where that source has its fields: the event made here has them at the first of these places. */
  readonly fields: FieldPaths;
  readonly origin: Exclude<Origin, "webhook">;
  /** The service's id of the message. */
  readonly messageId: string;
  readonly wamid: Wamid;
  readonly status: string;
  readonly errorCode: string | number | null;
  /** Unix ms at which the service said so. */
  readonly at: number;
  /** Id of the truncated event that made the relay ask. */
  readonly because?: string;
}

/**
 * The event that a webhook would have brought. Its id rests on account, message and status alone, so that
 * the same news learned twice (by hydration and reconciliation, or by two processes) is one event.
 */
export function learnedEvent(learned: LearnedStatus): ReceivedEvent {
  const { account, source, fields, origin, messageId, wamid, status, errorCode, at, because } = learned;
  const data: Record<string, unknown> = {};
  put(data, fields.wamid, wamid);
  put(data, fields.status, status);
  if (errorCode !== null) put(data, fields.errorCode, errorCode);
  const envelope: Envelope & { readonly relay: unknown } = {
    id: learnedEventId(account, messageId, status),
    event: "message.status",
    createdAt: new Date(at).toISOString(),
    data,
    relay: { origin, messageId, ...(because === undefined ? {} : { because }) },
  };
  const body = Buffer.from(JSON.stringify(envelope), "utf8");
  return {
    account,
    source,
    origin,
    receivedAt: at,
    body,
    headers: {},
    secret: null,
    envelope,
    subject: subjectOf(envelope, fields, body),
  };
}

/** A UUID of version 8 (RFC 9562, 5.8): the first 122 bits of a SHA-256. */
export function learnedEventId(account: AccountName, messageId: string, status: string): EventId {
  const hash = createHash("sha256").update(`wamid-relay learned\0${account}\0${messageId}\0${status}`).digest();
  hash[6] = ((hash[6] as number) & 0x0f) | 0x80;
  hash[8] = ((hash[8] as number) & 0x3f) | 0x80;
  const hex = hash.toString("hex", 0, 16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}` as EventId;
}

/** Sets the value at the first of the dotted paths. Digits in a path would be places in a list; here they are keys, which reads the same. */
function put(data: Record<string, unknown>, paths: readonly string[], value: unknown): void {
  const keys = (paths[0] as string).split(".");
  let place = data;
  for (const key of keys.slice(0, -1)) {
    const inner = Object.hasOwn(place, key) ? place[key] : undefined;
    if (typeof inner === "object" && inner !== null) place = inner as Record<string, unknown>;
    else {
      const made: Record<string, unknown> = {};
      Object.defineProperty(place, key, { value: made, enumerable: true, configurable: true, writable: true });
      place = made;
    }
  }
  Object.defineProperty(place, keys.at(-1) as string, { value, enumerable: true, configurable: true, writable: true });
}
