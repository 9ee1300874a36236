/**
 * The status words of the service's document (messaging-service-api.md, "Message status").
 * Any other word is kept and forwarded, and moves nothing.
 */
export const messageStatuses = ["pending", "sent", "delivered", "read", "failed", "received"] as const;
export type MessageStatus = (typeof messageStatuses)[number];

export function isMessageStatus(word: string): word is MessageStatus {
  return (messageStatuses as readonly string[]).includes(word);
}

/**
 * The states of an automation run. The document shows none; these are the relay's own words for
 * "we know it was started" and the two events that end it.
 */
export const runStatuses = ["started", "completed", "failed"] as const;
export type RunStatus = (typeof runStatuses)[number];
