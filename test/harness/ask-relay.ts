import { relayToken } from "./relay-settings.ts";

export interface RelayAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed where it is JSON. */
  readonly body: unknown;
}

/** Asks the relay at `url` (a path such as `/readyz` or `/v1/stats`), the harness's token along. */
export async function askRelay(
  url: string,
  path: string,
  { method = "GET", body }: { readonly method?: string; readonly body?: unknown } = {},
): Promise<RelayAnswer> {
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { authorization: `Bearer ${relayToken}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, body: text.startsWith("{") ? JSON.parse(text) : text };
}
