const outbound = ["pending", "sent", "failed", "delivered", "read"] as const;

/** The statuses of the service's document ("Message status"), ranked here apart from the relay's table, so that both cannot share a mistake. */
export const messageStatuses = [...outbound, "received"] as const;
export type MessageStatus = (typeof messageStatuses)[number];

/**
 * Whether a message with the status `from` takes the status `to`: one that comes later in the list. `failed` comes before
 * `delivered`, as another device of the same person may get the message. Inbound messages keep theirs.
 */
export function supersedes(from: MessageStatus, to: MessageStatus): boolean {
  return from !== "received" && to !== "received" && outbound.indexOf(from) < outbound.indexOf(to);
}

/** Whether `status` is `target`, or comes after it. */
export function reaches(status: MessageStatus, target: MessageStatus): boolean {
  return status === target || supersedes(target, status);
}

/** Whether a `message.status` event reports it: `pending` is the answer to a send, and `received` is a customer's message. */
export function isReported(status: MessageStatus): boolean {
  return status !== "pending" && status !== "received";
}
