// By its file: Bun replaces "undici" by a part of it.
import { Agent, buildConnector, request } from "undici/index.js";
import type { Clock } from "../../model/clock.ts";
import { takingContinue } from "../../net/connect.ts";
import { lookupFunction } from "../../net/name-lookup.ts";
import { createSigner } from "../signing.ts";
import type { AutomationRecord } from "../world/records.ts";

/** "Receiver of an automation's signed request must answer within 10 seconds." (messaging-service-api.md, "Other constants") */
export const answerWithinMs = 10_000;

const mostBytesRead = 1024 * 1024;

/**
 * Which exit the step takes. `unsigned`: the token is no key for the automation's signature, so nothing was sent;
 * `closed`: the sandbox stopped before the exit was known.
 */
export type RequestOutcome = "success" | "error" | "unsigned" | "closed";

export interface SignedRequests {
  /** Posts `body` as JSON, signed with the automation's token. Never rejects. */
  post(automation: AutomationRecord, url: string, body: unknown, id: string): Promise<RequestOutcome>;
  close(): Promise<void>;
}

/**
 * The outgoing requests of automations. The deadline and a signature's timestamp follow `clock`, the machine's: the
 * receiver lives in the machine's time, wherever the sandbox's clock stands.
 */
export function createSignedRequests(clock: Clock): SignedRequests {
  // As many connections as it takes: a request that waits for one would have its receiver's seconds run out unasked.
  const agent = new Agent({ allowH2: false, connect: takingContinue(buildConnector({ lookup: lookupFunction(), allowH2: false })) });
  let closed = false;

  const exitOf = async (url: string, headers: Record<string, string>, body: Buffer): Promise<RequestOutcome> => {
    const controller = new AbortController();
    const { signal } = controller;
    const cancelDeadline = clock.after(answerWithinMs, () => controller.abort());
    try {
      const answer = await request(url, { method: "POST", headers, body, dispatcher: agent, signal });
      // The answer is whole once its body is: one that drips past the deadline is late.
      await answer.body.dump({ limit: mostBytesRead, signal });
      if (closed) return "closed";
      return answer.statusCode >= 200 && answer.statusCode < 300 ? "success" : "error";
    } catch {
      // No URL, no listener, a reset, too late: it makes no difference to the step.
      return closed ? "closed" : "error";
    } finally {
      cancelDeadline();
    }
  };
  const post: SignedRequests["post"] = async (automation, url, value, id) => {
    if (closed) return "closed";
    const body = Buffer.from(JSON.stringify(value ?? null));
    const plain = { "content-type": "application/json", "user-agent": "wamid-relay-sandbox" };
    let signed: Record<string, string>;
    try {
      signed = createSigner(automation.signature, automation.token)({ method: "POST", url, body, id, timestampMs: clock.now() });
    } catch {
      return "unsigned";
    }
    return exitOf(url, { ...plain, ...signed }, body);
  };
  return {
    post,
    async close() {
      closed = true;
      await agent.destroy();
    },
  };
}
