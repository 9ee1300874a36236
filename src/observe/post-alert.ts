import { createRequire } from "node:module";
import { lookupFunction } from "../event/name-lookup.ts";

/** For the whole exchange. */
const withinMs = 10_000;

/** Posts JSON once. Rejects, with nothing of the URL in the message, unless a 2xx comes back in time. */
export async function postAlert(url: string, body: string): Promise<void> {
  // Loaded with the first alert: it is a tenth of what a relay's start costs.
  const { Agent, request } = createRequire(import.meta.url)("undici") as typeof import("undici");
  const dispatcher = new Agent({ allowH2: false, connect: { lookup: lookupFunction() } });
  let status: number;
  try {
    const answer = await request(url, {
      dispatcher,
      method: "POST",
      headers: { "content-type": "application/json", "user-agent": "wamid-relay" },
      body,
      signal: AbortSignal.timeout(withinMs),
    });
    status = answer.statusCode;
    // Closed rather than read: it may be endless.
    answer.body.on("error", () => {}).destroy();
  } catch (error) {
    const { name, code } = error as { name?: string; code?: unknown };
    throw new Error(`no answer (${name === "TimeoutError" ? `none within ${withinMs / 1000} s` : typeof code === "string" ? code : name})`);
  } finally {
    await dispatcher.destroy();
  }
  if (status < 200 || status > 299) throw new Error(`answered ${status}`);
}
