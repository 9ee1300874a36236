import { z } from "zod";
import type { Sandbox } from "../../src/sandbox/start-sandbox.ts";

const spent = z.object({ used: z.number(), limit: z.number().nullable() });
const rate = z.object({ last: z.number(), peak: z.number() });
const usageSchema = z.object({
  apiCalls: spent,
  perMinute: z.object({ requests: rate, messages: rate, refused: z.number() }),
});

/** What the sandbox has counted of the account `main`. */
export type SeenUsage = z.infer<typeof usageSchema>;

/** `GET /sandbox/usage`; fails when the answer is another. `query` is with its `?`. */
export async function usageOf(sandbox: Pick<Sandbox, "control">, query = ""): Promise<SeenUsage> {
  const { body } = await sandbox.control("GET", `/usage${query}`);
  return usageSchema.parse(body);
}
