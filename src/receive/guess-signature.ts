import { Secret } from "../event/secret.ts";
import type { SignatureSettings } from "../event/signature-settings.ts";
import { findHints } from "./signature-hints.ts";
import { type CapturedRequest, searchSignatures } from "./signature-search.ts";
import { createVerifier } from "./verify-signature.ts";

export interface SignatureGuess {
  /** Settings that prove the request, the simplest first; several when the capture cannot tell them apart. */
  readonly matches: readonly SignatureSettings[];
  /** One line each, for a person: why nothing matched, or what to know about the first match. Never the secret. */
  readonly hints: readonly string[];
  /** False when nothing matched because the request is authenticated in a way that no settings describe. */
  readonly isSupported: boolean;
}

/**
 * Finds out how a captured request was signed, given the secret. Searches header, algorithm, encoding,
 * prefix, separator, secret encoding, signed content and where timestamp and id are. With `nowMs`
 * (Unix milliseconds) it also says when a live request like this one would be refused as stale.
 * Never throws; costs some hundred HMACs over the body, so it is for a person and not for a request.
 */
export function guessSignature(request: CapturedRequest & { secret: string; nowMs?: number }): SignatureGuess {
  const matches = searchSignatures(request, request.secret);
  const [first] = matches;
  if (first === undefined) return { matches, ...findHints(request, request.secret) };
  const now =
    request.nowMs === undefined
      ? null
      : createVerifier({ ...first, secrets: [new Secret(request.secret)] })({ ...request, nowMs: request.nowMs });
  const isStale = now !== null && !now.ok && now.reason === "stale-timestamp";
  return {
    matches,
    isSupported: true,
    hints: isStale ? ["the signed timestamp is outside the tolerance now: right for a capture, refused when it is sent again"] : [],
  };
}
