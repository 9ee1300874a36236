/** Closes parts in the reverse order of their creation. Node 22 has no AsyncDisposableStack. */
export interface Cleanup extends AsyncDisposable {
  /** Adds a step that `run` takes before all earlier ones. */
  defer(step: () => unknown): void;
  /** Adds a step that closes `part`, and returns the part. */
  adopt<T>(part: T, close: (part: T) => unknown): T;
  /** Takes every step once, also after one that throws. Rejects with the first error. */
  run(): Promise<void>;
}

export function createCleanup(): Cleanup {
  const steps: (() => unknown)[] = [];

  async function run(): Promise<void> {
    const errors: unknown[] = [];
    for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }

  return {
    defer: (step) => void steps.push(step),
    adopt(part, close) {
      steps.push(() => close(part));
      return part;
    },
    run,
    [Symbol.asyncDispose]: run,
  };
}
