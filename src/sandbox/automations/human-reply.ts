import type { ConversationRecord } from "../world/records.ts";

const day = 24 * 60 * 60_000;

/** Whether a human colleague replied within the last 24 hours, so that automations keep still (messaging-service-api.md, "Conversation rules"). */
export function isWithHuman({ humanRepliedAt }: ConversationRecord, now: number): boolean {
  return humanRepliedAt !== null && now - humanRepliedAt < day;
}
