/** What one process saw of an account's webhooks, or of their absence, within some seconds. */
export interface Sighting extends SightingCounts {
  readonly account: string;
  /** Unix ms. */
  readonly at: number;
  /** Not given: it made none. */
  readonly polls?: PollNews;
}

export interface SightingCounts {
  /** Events that proved themselves. */
  readonly events: number;
  /** Of them, about a message and without their data. */
  readonly truncated: number;
  /** Bad signatures. */
  readonly refused: number;
  /** Messages registered. */
  readonly registered: number;
  /** Statuses learned by asking whose webhook did not come. */
  readonly missed: number;
}

/** What became of its polls last: a text for people while they are faulty, null when they are not. */
export type PollNews = string | null;

export interface SightingsRead {
  /** Oldest first. */
  readonly sightings: readonly Sighting[];
  /** Where the next reading goes on; a word of the store's own. */
  readonly place: string | null;
}
