/** What goes between a bench and its child processes. */
export type FromChild =
  | { readonly ready: { readonly port: number } }
  | { readonly answer: unknown; readonly to: number }
  | { readonly failed: string; readonly to: number };

export interface ToChild {
  readonly ask: unknown;
  readonly number: number;
}

/**
 * In a child: says that it listens on `port` (0: on none). From then on it ends when the parent
 * does.
 */
export function ready(port: number): void {
  process.on("disconnect", () => process.exit(0));
  tell({ ready: { port } });
}

/** In a child: answers what the parent asks. Says that it is ready when it listens on no port. */
export function answerParent(answer: (order: unknown) => Promise<unknown>, port = 0): void {
  process.on("message", (message: ToChild) => {
    answer(message.ask).then(
      (result) => tell({ answer: result, to: message.number }),
      (error: Error) => tell({ failed: error.message, to: message.number }),
    );
  });
  ready(port);
}

function tell(message: FromChild): void {
  process.send?.(message);
}
