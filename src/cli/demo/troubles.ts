import type { Downstream, Failure } from "../../sandbox/downstream/downstream.ts";

/** A change in how the downstream fares, `at` milliseconds after the first send; no `failure`: it recovers. */
interface Trouble {
  readonly at: number;
  readonly name: string;
  readonly failure: Failure | null;
}

export const troubles: readonly Trouble[] = [
  { at: 1_500, name: "cuts connections", failure: "reset" },
  { at: 2_000, name: "answers 503", failure: { status: 503 } },
  { at: 4_000, name: "is well again", failure: null },
];

/** Lets the downstream fail and recover on time; `tell` gets a word on each change. The returned function calls it all off. */
export function scheduleTroubles(downstream: Downstream, tell: (name: string) => void): () => void {
  const timers = troubles.map(({ at, name, failure }) =>
    setTimeout(() => {
      downstream.recover();
      if (failure !== null) downstream.fail(failure);
      tell(name);
    }, at),
  );
  return () => {
    for (const timer of timers) clearTimeout(timer);
  };
}
