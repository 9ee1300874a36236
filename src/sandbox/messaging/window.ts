import type { ConversationRecord } from "../world/records.ts";

const windowMs = 24 * 60 * 60 * 1000;

/** Whether free text may be sent: the customer wrote within the last 24 hours, the very last millisecond included. */
export function isWindowOpen({ customerWroteAt }: Pick<ConversationRecord, "customerWroteAt">, now: number): boolean {
  return customerWroteAt !== null && now - customerWroteAt <= windowMs;
}
