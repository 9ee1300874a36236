import type { Work } from "../sql/ops.ts";

/** Commands of one kind. Those that come together are one batch in one transaction. */
export interface Batches<In, Out> {
  /** Each command stands for itself, so on PostgreSQL each gets a transaction of its own. */
  readonly isEach?: boolean;
  readonly work: (batch: readonly In[]) => Work<Done<Out>>;
}

export interface Done<Out> {
  /** One for each command, in their order. */
  readonly outcomes: readonly Out[];
  /** Called once the transaction is committed. */
  readonly stored?: () => void;
}

/** Commands that need nothing but their turn. */
export function each<In, Out>(one: (item: In) => Work<Out>): Batches<In, Out> {
  return {
    isEach: true,
    *work(batch) {
      const outcomes: Out[] = [];
      for (const item of batch) outcomes.push(yield* one(item));
      return { outcomes };
    },
  };
}
