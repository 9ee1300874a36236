/** Deliveries of one URL that are held back until a later event of the same message has overtaken them: one of a message at a time. */
export interface Overtaking {
  /**
   * Calls `release` once, when the first try of a later event of `line` has ended. False, and it is not held,
   * when one of `line` is held already: another has to overtake that.
   */
  hold(line: string, eventId: string, release: () => void): boolean;
  /** The first try of this event has ended. */
  passed(line: string, eventId: string): void;
  /** Releases one that has waited long enough, if it is still held. */
  giveUp(line: string, eventId: string): void;
}

export function createOvertaking(): Overtaking {
  const held = new Map<string, { readonly eventId: string; readonly release: () => void }>();
  const releaseIf = (line: string, isDue: (eventId: string) => boolean): void => {
    const one = held.get(line);
    if (one === undefined || !isDue(one.eventId)) return;
    held.delete(line);
    one.release();
  };
  return {
    hold(line, eventId, release) {
      if (held.has(line)) return false;
      held.set(line, { eventId, release });
      return true;
    },
    // Ids grow: a greater one is a later event.
    passed: (line, passer) => releaseIf(line, (eventId) => eventId < passer),
    giveUp: (line, waited) => releaseIf(line, (eventId) => eventId === waited),
  };
}
