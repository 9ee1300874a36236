export type Cleanup = ReturnType<typeof createCleanup>;

/** Closes parts in the reverse order of their creation. Node 22 has no AsyncDisposableStack. */
export function createCleanup() {
  const steps: (() => unknown)[] = [];
  const first: (() => unknown)[] = [];

  /** Takes every step once, also after one that throws. Rejects with the first error. */
  async function run(): Promise<void> {
    const errors: unknown[] = [];
    const take = async (step: () => unknown): Promise<void> => {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    };
    await Promise.all(first.splice(0).map(take));
    for (let step = steps.pop(); step !== undefined; step = steps.pop()) await take(step);
    if (errors.length > 0) throw errors[0];
  }

  return {
    /** Adds a step that `run` takes before all earlier ones. */
    defer: (step: () => unknown): void => void steps.push(step),
    /** Adds a step that `run` takes first, at the same time as the others of this kind. */
    together: (step: () => unknown): void => void first.push(step),
    adopt<T>(part: T, close: (part: T) => unknown): T {
      steps.push(() => close(part));
      return part;
    },
    run,
    [Symbol.asyncDispose]: run,
  };
}
