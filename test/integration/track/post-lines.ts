import type { AnyRelay } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";

/** `POST /v1/messages/track` as NDJSON. */
export async function postLines({ url }: Pick<AnyRelay, "url">, body: string | Buffer) {
  const answer = await fetch(`${url}/v1/messages/track`, {
    method: "POST",
    headers: { authorization: `Bearer ${relayToken}`, "content-type": "application/x-ndjson" },
    body,
  });
  const lines = (await answer.text()).trimEnd().split("\n");
  return {
    status: answer.status,
    type: answer.headers.get("content-type"),
    lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}
