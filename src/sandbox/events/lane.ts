/** Work for one webhook URL: so much at once, and in order where a line is named. */
export interface Lane {
  /** Runs `work` once a place is free and the work added before to the same line has ended. */
  add(work: () => Promise<void>, line?: string | null): void;
}

interface Job {
  readonly work: () => Promise<void>;
  readonly line: string | null;
}

/**
 * At most `limit` at once. Work waits as closures without bodies, so that a URL that is down costs little.
 * `onError` receives the error of work that rejects; such work ends its turn too.
 */
export function createLane(limit: number, onError: (error: unknown) => void): Lane {
  let ready: Job[] = [];
  let taken = 0;
  let running = 0;
  /** By line, while one of it is ready or runs: those behind it. */
  const lines = new Map<string, Job[]>();

  const take = (): Job | undefined => {
    const job = ready[taken];
    if (job === undefined) return undefined;
    taken += 1;
    // Shifting a long array moves all of it each time.
    if (taken >= 1_024 && taken * 2 >= ready.length) {
      ready = ready.slice(taken);
      taken = 0;
    }
    return job;
  };
  const end = ({ line }: Job): void => {
    running -= 1;
    if (line !== null) {
      const behind = lines.get(line)?.shift();
      if (behind === undefined) lines.delete(line);
      else ready.push(behind);
    }
    runReady();
  };
  const runReady = (): void => {
    while (running < limit) {
      const job = take();
      if (job === undefined) return;
      running += 1;
      const ended = () => end(job);
      job.work().catch(onError).then(ended);
    }
  };
  return {
    add(work, line = null) {
      const job = { work, line };
      const behind = line === null ? undefined : lines.get(line);
      if (behind !== undefined) {
        behind.push(job);
        return;
      }
      if (line !== null) lines.set(line, []);
      ready.push(job);
      runReady();
    },
  };
}
