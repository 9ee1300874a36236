/**
 * A second signal means "now". One that comes this soon is the first again: Ctrl-C under `npm run` reaches the process
 * from the terminal and from npm.
 */
const doubledSignalMs = 1_000;

/** Resolves when somebody presses Ctrl-C or ends the process in an orderly way. */
export function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    const stop = (): void => {
      process.off("SIGTERM", stop).off("SIGINT", stop);
      resolve();
    };
    process.on("SIGTERM", stop).on("SIGINT", stop);
  });
}

/** To be called once a stop is under way: another signal ends the process at once. */
export function endOnSecondSignal(): void {
  const stoppedAt = performance.now();
  const hurry = (): void => {
    if (performance.now() - stoppedAt > doubledSignalMs) process.exit(1);
  };
  process.on("SIGTERM", hurry).on("SIGINT", hurry);
}
