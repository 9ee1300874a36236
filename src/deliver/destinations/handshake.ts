import { Secret } from "../../model/secret.ts";
import { relayVersion } from "../../model/version.ts";
import { fixedHeaders } from "./delivery-headers.ts";
import type { DestinationSettings } from "./kinds.ts";
import { openUrl, type UrlDestinationSettings, type UrlOutcome } from "./url.ts";

/** The person who asked for it waits. */
const longestMs = 15_000;
/** A right answer has the length of the challenge. */
const keep = 64;

export type App = UrlDestinationSettings & { readonly verifyToken: Secret };

export function appOf({ to }: { readonly to: DestinationSettings }): App | null {
  return "url" in to && to.verifyToken !== undefined ? { ...to, verifyToken: to.verifyToken } : null;
}

/** Another URL or token needs a handshake of its own. */
export function fingerprintOf({ url, verifyToken }: App): string {
  return new Secret(`${url}\0${verifyToken.reveal()}`).fingerprint();
}

/** Returns what is wrong, without quoting the body, which may hold secrets; null: the app knows the token. */
export async function shakeHands(to: UrlDestinationSettings, verifyToken: string, challenge: string): Promise<string | null> {
  const app = openUrl({ ...to, concurrency: 1, timeout: Math.min(to.timeout, longestMs) }, Date.now, keep);
  const path = handshakePath(new URL(to.url), verifyToken, challenge);
  try {
    const outcome = await app.request({ method: "GET", path, headers: [...fixedHeaders(to, relayVersion())].flat() });
    return problemOf(outcome, challenge);
  } finally {
    await app.close();
  }
}

/** The URL's own query comes first, as it is written. */
function handshakePath({ pathname, search }: URL, verifyToken: string, challenge: string): string {
  const own = search === "" ? "?" : `${search}&`;
  return `${pathname}${own}hub.mode=subscribe&hub.challenge=${challenge}&hub.verify_token=${encodeURIComponent(verifyToken)}`;
}

function problemOf({ result, response, responseType }: UrlOutcome, challenge: string): string | null {
  if (result.kind === "failed") return `no answer: ${response?.toString() ?? result.error}`;
  const { status } = result;
  const isChallenge = response?.toString("latin1") === challenge;
  if (status === 200 && isChallenge) return null;
  if (status === 200) return `it answered 200 with ${bodyText(response, responseType)} instead of the challenge`;
  if (isChallenge) return `it answered ${status} with the challenge, which Meta takes as a refusal`;
  if (status >= 300 && status < 400) return `it answered ${status}, a redirect, which neither Meta nor the relay follows`;
  return `it answered ${status} instead of 200`;
}

function bodyText(response: Buffer | null, type: string | null | undefined): string {
  if (response === null) return "no body";
  const [media] = /^[\w.+-]{1,64}\/[\w.+-]{1,64}/.exec(type ?? "") ?? [];
  return media === undefined ? "another body" : `another body (${media})`;
}
