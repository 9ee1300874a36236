import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type { AnyRelay } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";

type ReportLine = Record<string, unknown>;

/** `POST /v1/messages/track` as NDJSON. The report is read as it is taken. */
export async function openReport(relay: Pick<AnyRelay, "port">, body: string | Buffer, headers: Readonly<Record<string, string>> = {}) {
  const answer = await fetch(`http://127.0.0.1:${relay.port}/v1/messages/track`, {
    method: "POST",
    headers: { authorization: `Bearer ${relayToken}`, "content-type": "application/x-ndjson", ...headers },
    body,
  });
  async function* lines(): AsyncGenerator<ReportLine> {
    const input = Readable.fromWeb(answer.body as Parameters<typeof Readable.fromWeb>[0]);
    for await (const text of createInterface({ input })) yield JSON.parse(text) as ReportLine;
  }
  return { status: answer.status, type: answer.headers.get("content-type"), lines: lines() };
}

export async function postLines(...given: Parameters<typeof openReport>) {
  const { lines, ...answer } = await openReport(...given);
  return { ...answer, lines: await Array.fromAsync(lines) };
}
