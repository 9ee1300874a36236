/** Storing failed for a reason outside the event itself: disk full, file locked, read-only, broken. */
export class StoreUnavailable extends Error {
  override readonly name = "StoreUnavailable";
}

/** The store cannot be opened; `message` is one line that says why and what to do. */
export class StoreRefused extends Error {
  override readonly name = "StoreRefused";
}
