import { z } from "zod";
import { connectRelay, whoListens } from "../control-client.ts";
import { CommandFailed } from "../io.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

/** A stop of an account's calls, as `/readyz` shows it. */
const stopsSchema = z.array(z.object({ account: z.string(), reason: z.string(), resource: z.string().nullable(), until: z.string() }));
export type SeenStop = z.infer<typeof stopsSchema>[number];

/** Whether the relay of the settings answers, and is ready. `url` is null when its port is any free one. `stops` receives what it shows. */
export async function checkRelay(url: string | null, isHeld: boolean, stops: (seen: readonly SeenStop[]) => void): Promise<Finding> {
  const check = "relay";
  if (url === null) {
    return isHeld ? ok(check, "runs; server.port is 0, so it was not asked") : warn(check, "does not run", "wamid-relay serve");
  }
  try {
    const found = await whoListens(url);
    if (found === "stranger")
      return fail(check, `what listens at ${url} is no wamid-relay`, "give server.port another port, or stop the other one");
    if (found === "nobody") {
      return isHeld
        ? fail(
            check,
            `a process holds the store, and nothing answers at ${url}`,
            "does it run with other settings? Else end it and start it again",
          )
        : warn(check, `does not run: nothing listens at ${url}`, "wamid-relay serve");
    }
    const { status, json } = await connectRelay(url, null).request("GET", "/readyz");
    const seen = stopsSchema.safeParse((json as { stops?: unknown }).stops);
    if (seen.success) stops(seen.data);
    if (status === 200) return ok(check, `ready at ${url}`);
    const { reason, draining } = json as { reason?: unknown; draining?: unknown };
    if (draining === true) return warn(check, `is stopping (${url})`, "wait for its end, or start it again");
    return fail(
      check,
      `not ready at ${url}: ${typeof reason === "string" ? reason : `status ${status}`}`,
      "it answers 503 until that is repaired",
    );
  } catch (error) {
    if (error instanceof CommandFailed) return fail(check, error.message, "see whether the process hangs");
    throw error;
  }
}
