import type { Settings } from "../config/schema.ts";

/** What `make` gives for the settings in effect, made once for each reload: with a thousand routes it takes long. */
export function perSettings<Made>(current: () => Settings, make: (settings: Settings) => Made): () => Made {
  let last: { settings: Settings; made: Made } | undefined;
  return () => {
    const settings = current();
    if (last?.settings !== settings) last = { settings, made: make(settings) };
    return last.made;
  };
}
