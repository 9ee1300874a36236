import type { Stats } from "../../src/store/port.ts";
import { relayToken } from "./relay-settings.ts";
import { until } from "./until.ts";

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
export async function askRelay(
  url: string,
  path: string,
  { body, headers, ...request }: RelayRequest = {},
): Promise<RelayAnswer> {
  const answer = await fetch(`${url}${path}`, {
    ...request,
    headers: {
      authorization: `Bearer ${relayToken}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    headers: answer.headers,
    body: text.startsWith("{") ? JSON.parse(text) : text,
  };
}

type Asked = { ask(path: string): Promise<RelayAnswer> };

export const statsOf = async ({ ask }: Asked): Promise<Stats> =>
  (await ask("/v1/stats")).body as Stats;

/**
 * The report of `GET /v1/audit`, however long it takes: on a busy machine, 202 with the progress or
 * 503 comes first.
 */
export const auditOf = ({ ask }: Asked): Promise<object> =>
  until("the audit ends", async () => {
    const { status, body } = await ask("/v1/audit");
    return status === 202 || status === 503 ? null : (body as object);
  });
