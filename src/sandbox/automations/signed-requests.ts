import { Agent } from "undici/index.js";
import type { Clock } from "../../model/clock.ts";
import { postJson, receiverConnection } from "../post.ts";
import { createSigner } from "../signing.ts";
import type { AutomationRecord } from "../world/records.ts";

/** messaging-service-api.md, "Other constants". */
export const answerWithinMs = 10_000;

/** `unsigned`: the token does not fit the automation's signature; `closed`: the sandbox stopped first. */
export type RequestOutcome = "success" | "error" | "unsigned" | "closed";

export interface SignedRequests {
  post(automation: AutomationRecord, url: string, body: unknown, id: string): Promise<RequestOutcome>;
  close(): Promise<void>;
}

/** `clock` is the machine's: the receiver lives in the machine's time. */
export function createSignedRequests(clock: Clock): SignedRequests {
  // Connections have no limit: a request that waits for one would use up its receiver's seconds.
  const agent = new Agent(receiverConnection());
  let closed = false;

  const post: SignedRequests["post"] = async (automation, url, value, id) => {
    if (closed) return "closed";
    const body = Buffer.from(JSON.stringify(value ?? null));
    let headers: Record<string, string>;
    try {
      headers = createSigner(automation.signature, automation.token)({ method: "POST", url, body, id, timestampMs: clock.now() });
    } catch {
      return "unsigned";
    }
    const answer = await postJson({ dispatcher: agent, url, headers, body, clock, timeoutMs: answerWithinMs });
    if (closed) return "closed";
    // An answer whose body drips past the deadline is late.
    const isSuccess = answer.kind === "answered" && answer.isWhole && answer.status >= 200 && answer.status < 300;
    return isSuccess ? "success" : "error";
  };
  return {
    post,
    async close() {
      closed = true;
      await agent.destroy();
    },
  };
}
