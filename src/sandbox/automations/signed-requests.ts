// By its file: Bun replaces "undici" by a part of it.
import { Agent, buildConnector, request } from "undici/index.js";
import type { Clock } from "../../model/clock.ts";
import { takingContinue } from "../../net/connect.ts";
import { lookupFunction } from "../../net/name-lookup.ts";
import { createSigner } from "../signing.ts";
import type { AutomationRecord } from "../world/records.ts";

/** messaging-service-api.md, "Other constants". */
export const answerWithinMs = 10_000;

const mostBytesRead = 1024 * 1024;

/** `unsigned`: the token does not fit the automation's signature; `closed`: the sandbox stopped first. */
export type RequestOutcome = "success" | "error" | "unsigned" | "closed";

export interface SignedRequests {
  post(automation: AutomationRecord, url: string, body: unknown, id: string): Promise<RequestOutcome>;
  close(): Promise<void>;
}

/** `clock` is the machine's: the receiver lives in the machine's time. */
export function createSignedRequests(clock: Clock): SignedRequests {
  // Connections have no limit: a request that waits for one would use up its receiver's seconds.
  const agent = new Agent({ allowH2: false, connect: takingContinue(buildConnector({ lookup: lookupFunction(), allowH2: false })) });
  let closed = false;

  const exitOf = async (url: string, headers: Record<string, string>, body: Buffer): Promise<RequestOutcome> => {
    const controller = new AbortController();
    const { signal } = controller;
    const cancelDeadline = clock.after(answerWithinMs, () => controller.abort());
    try {
      const answer = await request(url, { method: "POST", headers, body, dispatcher: agent, signal });
      // An answer whose body drips past the deadline is late.
      await answer.body.dump({ limit: mostBytesRead, signal });
      if (closed) return "closed";
      return answer.statusCode >= 200 && answer.statusCode < 300 ? "success" : "error";
    } catch {
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
