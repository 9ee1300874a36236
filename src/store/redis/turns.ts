/** Who does something with a key, one after the other, in this process. */
export interface Turns {
  /** Ends when those who have asked for a turn by now have had it; undefined: nobody has. */
  over(key: string): Promise<void> | undefined;
  /** Resolves when it is one's turn, with the end of it. */
  take(key: string): Promise<() => void>;
}

export function createTurns(): Turns {
  const last = new Map<string, Promise<void>>();
  return {
    over: (key) => last.get(key),
    async take(key) {
      const before = last.get(key);
      const { promise, resolve } = Promise.withResolvers<void>();
      const mine = before === undefined ? promise : before.then(() => promise);
      last.set(key, mine);
      await before;
      return () => {
        resolve();
        if (last.get(key) === mine) last.delete(key);
      };
    },
  };
}
