interface CursorParts {
  /** Tells the relay; rejects when it could not be told. */
  readonly tell: (seq: number) => Promise<void>;
  readonly wait: (ms: number) => Promise<void>;
  /** Nothing more is told by itself. */
  readonly over: AbortSignal;
}

interface Cursor {
  /** Everything up to this event is done with. */
  moved(seq: number): void;
  /** Resolves when the relay knows it, or could not be told once. */
  flush(): Promise<void>;
}

/** Pause between two words to the relay: each is a commit there. */
const everyMs = 50;
const afterFailureMs = 2_000;

/** Tells the relay how far a name has come, the newest place only, one word at a time. */
export function createCursor({ tell, wait, over }: CursorParts): Cursor {
  let wanted = -1;
  let known = -1;
  let isTelling = false;

  async function once(): Promise<boolean> {
    const seq = wanted;
    try {
      await tell(seq);
      known = Math.max(known, seq);
      return true;
    } catch {
      return false;
    }
  }

  async function run(): Promise<void> {
    isTelling = true;
    while (known < wanted && !over.aborted) await wait((await once()) ? everyMs : afterFailureMs);
    isTelling = false;
  }

  return {
    moved(seq) {
      if (seq <= wanted) return;
      wanted = seq;
      if (!isTelling) void run();
    },
    async flush() {
      if (known < wanted) await once();
    },
  };
}
