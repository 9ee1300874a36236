import { RelayClient, RelayClientError } from "../../client/relay-client.ts";
import { readClock } from "./clock.ts";

export const relay = new RelayClient({
  url: window.location.origin,
  fetch: async (...request) => {
    const startedAt = performance.now();
    const answer = await fetch(...request);
    readClock(answer.headers.get("date"), performance.now() - startedAt);
    return answer;
  },
});

/** No relay answers: it starts or stops, or a proxy before it cannot reach it. */
export const isUnavailable = (error: unknown): boolean =>
  error instanceof RelayClientError && (error.status === 0 || error.status >= 500);

export function errorText(error: unknown): string {
  // A relay served this page: an answer that is not a relay's comes from a proxy before it.
  if (error instanceof RelayClientError && error.code === "bad_answer" && isUnavailable(error))
    return `no answer from the relay (status ${error.status} of a proxy)`;
  return error instanceof Error ? error.message : String(error);
}

export const isNotFound = (error: unknown): boolean =>
  error instanceof RelayClientError && error.status === 404;

export const isForbidden = (error: unknown): boolean =>
  error instanceof RelayClientError && error.status === 403;

export const isSignedOut = (error: unknown): boolean =>
  error instanceof RelayClientError && error.status === 401;
