/**
 * A second signal means "now". One that comes this soon is the first again: Ctrl-C under `npm run` reaches the process
 * from the terminal and from npm.
 */
const doubledSignalMs = 1_000;
/** The process stays this long at least: in its very last moment Node listens no more, and the doubled signal would kill it. */
const heldMs = 100;

/**
 * Resolves when somebody presses Ctrl-C or ends the process in an orderly way; from then on another signal ends the
 * process at once. There is no moment without a listener: the doubled signal may come within the same turn, and would
 * kill the process.
 */
export function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    let stoppedAt: number | null = null;
    const stop = (): void => {
      if (stoppedAt === null) {
        stoppedAt = performance.now();
        setTimeout(() => {}, heldMs);
        resolve();
      } else if (performance.now() - stoppedAt > doubledSignalMs) process.exit(1);
    };
    process.on("SIGTERM", stop).on("SIGINT", stop);
  });
}
