/** Whether the relay can do its job now, and if not, why. */
export interface Health {
  /** A write was stored. */
  stored(): void;
  /** A write could not be stored. */
  storeFailed(reason: string): void;
  drain(): void;
  storing(): boolean;
  /** For `/readyz`: ready while events can be stored and the relay is not stopping. */
  report(): { ready: boolean; store: "ok" | "failing"; reason: string | null; draining: boolean };
}

export function createHealth(): Health {
  let failure: string | null = null;
  let draining = false;
  return {
    stored() {
      failure = null;
    },
    storeFailed(reason) {
      failure = reason;
    },
    drain() {
      draining = true;
    },
    storing: () => failure === null,
    report: () => ({ ready: failure === null && !draining, store: failure === null ? "ok" : "failing", reason: failure, draining }),
  };
}
