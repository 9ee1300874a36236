import { type EventData, truncatedData } from "./event-data.ts";
import { bodyOf, type SandboxEvent } from "./event-maker.ts";

/**
 * "Events", 3: `data` over 256 KB arrives truncated. That a KB is 1,024 bytes, counted over `data` alone as
 * JSON in UTF-8, is the sandbox's choice.
 */
export const mostDataBytes = 256 * 1024;

/** The envelope as sent. Throws a TypeError for data that JSON cannot hold. */
export function eventBody(envelope: Omit<SandboxEvent, "data">, data: EventData): string {
  const text = JSON.stringify(data);
  // A UTF-16 unit takes three bytes at most: nearly all data needs no count.
  const size = text.length * 3 <= mostDataBytes ? 0 : Buffer.byteLength(text, "utf8");
  const sent = size > mostDataBytes ? JSON.stringify(truncatedData(size)) : text;
  const { id, event, createdAt } = envelope;
  return `{"id":${JSON.stringify(id)},"event":${JSON.stringify(event)},"createdAt":"${createdAt}","data":${sent}}`;
}

/** The bytes of an envelope with its data truncated, whatever its size. */
export function truncatedBody(body: string): Buffer {
  const event = JSON.parse(body) as SandboxEvent;
  if (event.data["truncated"] === true) return Buffer.from(body, "utf8");
  return bodyOf({ ...event, data: truncatedData(Buffer.byteLength(JSON.stringify(event.data), "utf8")) });
}
