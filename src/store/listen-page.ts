import type { EventId } from "../event/ids.ts";
import type { Disposition } from "../event/plan.ts";

/** An event before its body is read. Times are unix ms. */
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
  /** To be called while the page is in hand: it may be read only then. */
  content(): ListenedContent;
}

export interface ListenPage {
  readonly events: readonly ListenedEvent[];
  /** Everything up to this seq was looked at. */
  readonly through: number;
  /** Events among those looked at that retention has deleted: how many, and between which seqs. */
  readonly missing: { readonly from: number; readonly to: number; readonly count: number } | null;
  /** True when there was nothing after `through`. */
  readonly atEnd: boolean;
}

/** Which events are wanted; `event` is asked only where `row` said yes. */
export interface Wanted {
  row(row: ListenRow): boolean;
  readonly event: ((event: ListenedEvent) => boolean) | null;
}

/** A page ready to be judged: that and `use` are the work of the thread, in one piece, to be done once. */
export type OpenPage = <T>(use: (page: ListenPage) => T) => T;
