import { z } from "zod";
import { eventSchema } from "./answers.ts";
import type { View } from "./view.ts";

/** An event as `GET /v1/listen` sends it (docs/how-to/develop-with-production-events.md). */
export const listenedEventSchema = eventSchema
  .pick({ seq: true, source: true, account: true, origin: true, receivedAt: true, disposition: true, status: true, subject: true })
  .extend({
    id: z.string().describe("The envelope's id."),
    event: z.string().describe("The event kind."),
    tracked: z.boolean().describe("Whether its message or run is registered now."),
    headers: z.record(z.string(), z.string()).describe("The stored request headers."),
    // Text in JSON would lose what is not UTF-8.
    body: z.base64().describe("The received bytes, in base64."),
  });

export type ListenRow = Omit<View<typeof listenedEventSchema>, "headers" | "body">;

export interface ListenedContent {
  /** How `body` is read. Null or absent: `standard`. */
  readonly format?: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface ListenedEvent extends ListenRow {
  /** Valid only while the page is in use. */
  content(): ListenedContent;
}

export interface ListenPage {
  readonly events: readonly ListenedEvent[];
  readonly through: number;
  /** Purged events within the page: their number, and the first and last seq. */
  readonly missing: { readonly from: number; readonly to: number; readonly count: number } | null;
  readonly atEnd: boolean;
}
