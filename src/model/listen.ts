import type { EventId } from "./ids.ts";
import type { Disposition } from "./plan.ts";

/** A stored event as listeners filter it, before its body is read. Times are unix ms. */
export interface ListenRow {
  readonly seq: number;
  readonly id: EventId;
  readonly event: string;
  readonly source: string;
  readonly account: string;
  readonly origin: string;
  readonly receivedAt: number;
  readonly disposition: Disposition;
  readonly status: string | null;
  readonly subject: { readonly type: "message" | "run"; readonly key: string } | null;
  /** Whether its message or run is registered now. */
  readonly tracked: boolean;
}

export interface ListenedContent {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface ListenedEvent extends ListenRow {
  /** Valid only while the page is in use. */
  content(): ListenedContent;
}

export interface ListenPage {
  readonly events: readonly ListenedEvent[];
  /** The last seq that was read. */
  readonly through: number;
  /** Purged events within the page: their number, and the first and last seq. */
  readonly missing: { readonly from: number; readonly to: number; readonly count: number } | null;
  /** True when there was nothing after `through`. */
  readonly atEnd: boolean;
}
