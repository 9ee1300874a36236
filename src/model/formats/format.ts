import type { Envelope } from "../envelope.ts";
import type { FieldPaths, Subject } from "../event.ts";

export type ItemContent =
  | { readonly ok: true; readonly envelope: Envelope; readonly subject: Subject }
  | { readonly ok: false; readonly error: string };

export interface Item {
  /** Its own bytes: a request with this item only, which reads as the same item. */
  readonly body: Buffer;
  /**
   * Ids of the business number and account that it came for, the more exact one first. They select
   * the relay's account.
   */
  readonly numbers: readonly string[];
  readonly content: ItemContent;
}

export interface ItemPlace {
  /** SHA-256 of the whole request, in hex. */
  readonly digest: string;
  readonly place: number;
}

export interface ReadingOf {
  readonly source: string;
  readonly fields: FieldPaths;
  /** Unix ms. Absent: nobody keeps the ids. */
  readonly receivedAt?: number;
  /** Of an item that is read again from its own bytes: where it was in its request. */
  readonly from?: ItemPlace;
}

/** How the signed bodies of one kind of sender are read. Pure, and never throws. */
export interface Format {
  items(body: Buffer, of: ReadingOf): readonly Item[];
  /**
   * The sender's item in the valid body of one item, as {@link parseVerbatim} reads it. Absent: the
   * whole body is.
   */
  raw?(body: Buffer): unknown;
  /** Bytes of the largest body, where the sender says it. `server.bodyLimit` may be larger. */
  readonly largestBody?: number;
}
