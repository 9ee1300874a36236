import { relayToken } from "./relay-settings.ts";

export interface RelayAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed where it is JSON. */
  readonly body: unknown;
}

export interface RelayRequest {
  readonly method?: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Asks the relay at `url` (a path such as `/readyz` or `/v1/stats`), the harness's token along. */
export async function askRelay(url: string, path: string, { body, headers, ...request }: RelayRequest = {}): Promise<RelayAnswer> {
  const answer = await fetch(`${url}${path}`, {
    ...request,
    headers: { authorization: `Bearer ${relayToken}`, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, body: text.startsWith("{") ? JSON.parse(text) : text };
}
