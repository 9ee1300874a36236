import type { Settings } from "../config/schema.ts";

export type LiveSettings = ReturnType<typeof createLiveSettings>;

/** The settings in effect. `apply` hands new ones to the parts that follow, in the order in which the parts were created. */
export function createLiveSettings(initial: Settings) {
  let settings = initial;
  const followers: ((next: Settings) => void)[] = [];
  const follow = (take: (next: Settings) => void): void => void followers.push(take);

  return {
    /** Those of the start, of which a part stays in effect until a restart. */
    initial,
    current: () => settings,
    follow,
    /** What `make` returns for the settings in effect, made once for each. */
    derive<Made>(make: (settings: Settings) => Made): () => Made {
      let made = make(settings);
      follow((next) => {
        made = make(next);
      });
      return () => made;
    },
    apply(next: Settings): void {
      settings = next;
      for (const take of followers) take(next);
    },
  };
}
