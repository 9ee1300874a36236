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

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export const isNotFound = (error: unknown): boolean =>
  error instanceof RelayClientError && error.status === 404;

export const isForbidden = (error: unknown): boolean =>
  error instanceof RelayClientError && error.status === 403;

export const isSignedOut = (error: unknown): boolean =>
  error instanceof RelayClientError && error.status === 401;
