import type { MessageStatus } from "../../model/statuses.ts";
import type { MessageRecord } from "../world/records.ts";

/** `failed` is not the end: another device of the same person may still get the message (FACTS.md, "The domain"). */
const order: Readonly<Record<MessageStatus, number>> = { pending: 0, sent: 1, failed: 2, delivered: 3, read: 4, received: 5 };

/** Whether a note of `to` changes what is known of a message that is `from`: a late `delivered` does not undo `read`. */
export function takesOver(from: MessageStatus, to: MessageStatus): boolean {
  return order[to] > order[from];
}

/** Changes the record in place. `errorCode` is there only while it is `failed`. */
export function becomes(message: MessageRecord, now: number, status: MessageStatus, errorCode?: string | number): void {
  message.status = status;
  message.statusAt = now;
  delete message.errorCode;
  if (status === "failed" && errorCode !== undefined) message.errorCode = errorCode;
  if (status === "delivered" || status === "read") message.deliveredAt ??= now;
  if (status === "read") message.readAt ??= now;
}
