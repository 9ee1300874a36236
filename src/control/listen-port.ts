import type { Soon } from "../event/soon.ts";

/** An event as those who listen get it. */
export interface ListenEvent {
  readonly seq: number;
  readonly id: string;
  readonly event: string;
  readonly source: string;
  readonly account: string;
  readonly origin: string;
  /** Unix ms. */
  readonly receivedAt: number;
  readonly disposition: string;
  readonly status: string | null;
  readonly subject: { readonly type: string; readonly key: string } | null;
  readonly tracked: boolean;
  /** Its headers and bytes; to be called at once, by who is given the page. */
  content(): { readonly headers: Readonly<Record<string, string>>; readonly body: Buffer };
}

/** What somebody wants to hear of. Not given: all. */
export interface ListenFilter {
  readonly sources?: readonly string[] | undefined;
  /** Kinds, with `*` as in routes. */
  readonly events?: readonly string[] | undefined;
  readonly statuses?: readonly string[] | undefined;
  readonly tracked?: boolean | undefined;
  /** A condition on `data`, as in routes. */
  readonly where?: unknown;
}

export interface ListenPage {
  readonly events: readonly ListenEvent[];
  /** Everything up to this seq was looked at. */
  readonly through: number;
  /** How many events in between retention has deleted, and between which seqs. */
  readonly missing: { readonly from: number; readonly to: number; readonly count: number } | null;
  readonly atEnd: boolean;
}

/**
 * Reads the next events after a seq. What `use` makes of them is made at once, so that its time counts as listening's,
 * of which there is a share.
 */
export type ReadPage = <T>(after: number, use: (page: ListenPage) => T) => Promise<T>;

/** Somebody who listens now, as metrics show it. */
export interface Listener {
  /** `as=` of the request, or null. */
  readonly name: string | null;
  /** Everything up to this seq has been handed to the connection. */
  readonly position: () => number;
}

/** What the control API asks of the relay so that others can listen. Times are unix ms. */
export interface ListenPort {
  /** For the events that match. Throws `bad_request` for a filter that is none. */
  open(filter: ListenFilter): ReadPage;
  /** Seqs of the oldest and newest event kept, 0 when there is none, and when the oldest was received. */
  ends(): Soon<{ readonly oldest: number; readonly newest: number; readonly oldestAt: number | null }>;
  /** The seq after which the events of this time and later are. */
  seqBefore(time: number): Soon<number>;
  /** Calls `wake` at each event stored from now on; the function returned ends that. */
  onStored(wake: () => void): () => void;
  /** Null when nobody has listened under this name. */
  cursor(name: string): Soon<number | null>;
  /** A cursor never goes back; gives where it stands now. */
  moveCursor(name: string, seq: number): Promise<number>;
  /** Makes room for one more; null when there is none. The function returned gives it back. */
  enter(listener: Listener): (() => void) | null;
  now(): number;
  after(ms: number, run: () => void): () => void;
  /** How long events are kept, in ms. */
  retention(): number;
  readonly version: string;
}
