import type { MessageStatus } from "../statuses.ts";

/** `data` of an envelope (messaging-service-api.md, "Event envelope"). */
export type EventData = Readonly<Record<string, unknown>>;

/**
 * "Events": the message is identified by `wamid`; the full payload is not shown. `status` and `errorCode`
 * (for `failed` only: a number or text, as providers mix them) are the sandbox's choice.
 */
export function messageStatusData(wamid: string, status: MessageStatus, errorCode?: string | number): EventData {
  return errorCode === undefined ? { wamid, status } : { wamid, status, errorCode };
}

/** "Events": the payload is not shown; `{runId}` is the sandbox's choice. */
export function automationCompletedData(runId: string): EventData {
  return { runId };
}

export function automationFailedData(runId: string, error: string): EventData {
  return { runId, error };
}

/** What arrives in place of data over 256 KB ("Events", 3); `size` in bytes. */
export function truncatedData(size: number): EventData {
  return { truncated: true, id: null, size };
}
