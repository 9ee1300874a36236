import type { CallOptions } from "../service-api/call.ts";
import type { ServiceClient } from "../service-api/client.ts";
import type { Message } from "../service-api/schemas.ts";

/**
 * Reads a message for those who poll: after all others, and once, because reconciliation and hydration have waits of
 * their own. A call that a cap held back did nothing, and may go again. `leaving`: a request leaves now.
 */
export function pollMessage(
  client: ServiceClient,
  id: string,
  { leaving, ...ends }: Pick<CallOptions, "signal" | "patience"> & { readonly leaving?: () => void },
): Promise<Message> {
  return client.getMessage(id, {
    ...ends,
    priority: "poll",
    watch: {
      starting: async () => leaving?.(),
      async repeating(error) {
        if (error.kind !== "rate-limited") throw error;
      },
    },
  });
}
