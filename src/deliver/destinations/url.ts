import type { UrlDestinationSettings } from "../settings.ts";
import type { Destination } from "./destination.ts";

/** A destination that is a URL. `clock` gives unix milliseconds. */
export function createUrlDestination(_settings: UrlDestinationSettings, _clock: () => number): Destination {
  throw new Error("not written yet");
}
