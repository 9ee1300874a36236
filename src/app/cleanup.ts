/** Closes parts in the reverse order of their creation. Node 22 has no AsyncDisposableStack. */
export interface Cleanup extends AsyncDisposable {
  /** Adds a step that `run` takes before all earlier ones. */
  defer(step: () => unknown): void;
  /** Adds a step that `run` takes first, at the same time as the others of this kind. */
  together(step: () => unknown): void;
  /** Adds a step that closes `part`, and returns the part. */
  adopt<T>(part: T, close: (part: T) => unknown): T;
  /** Takes every step once, also after one that throws. Rejects with the first error. */
  run(): Promise<void>;
}

export function createCleanup(): Cleanup {
  const steps: (() => unknown)[] = [];
  const first: (() => unknown)[] = [];

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
    defer: (step) => void steps.push(step),
    together: (step) => void first.push(step),
    adopt(part, close) {
      steps.push(() => close(part));
      return part;
    },
    run,
    [Symbol.asyncDispose]: run,
  };
}
