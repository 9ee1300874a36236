import { createHash, timingSafeEqual } from "node:crypto";
import type { FieldPaths } from "../model/event.ts";
import type { FormatName } from "../model/formats/formats.ts";
import type { Secret } from "../model/secret.ts";
import type { SignatureSettings } from "../model/signature.ts";
import { type Answer, errorAnswer } from "./http.ts";
import { createVerifier, type VerifiableRequest, type Verified } from "./signature/verify.ts";

export interface InboundSource {
  readonly name: string;
  readonly account: string;
  readonly kind: "events" | "automation-request";
  readonly mode: "ack" | "proxy";
  readonly signature: (SignatureSettings & { readonly secrets: readonly Secret[] }) | undefined;
  readonly fields: FieldPaths;
  readonly several?: SeveralSettings | undefined;
}

export interface SeveralSettings extends OtherChecks {
  readonly format: FormatName;
  readonly accounts: Readonly<Record<string, string>>;
  readonly verifyTokens: readonly Secret[];
}

/** For senders that do not sign, or do more than that. */
interface OtherChecks {
  readonly header?: { readonly name: string; readonly values: readonly Secret[] } | undefined;
  /** Any of them is the last part of the path. */
  readonly pathSecrets?: readonly Secret[] | undefined;
}

type Check = (request: VerifiableRequest) => Verified;

/** Throws when a setting is contradictory. */
export function createCheck(
  signature: (SignatureSettings & { readonly secrets: readonly Secret[] }) | undefined,
  { header, pathSecrets }: OtherChecks = {},
): Check {
  const checks: Check[] = [];
  // Last, so that its verdict is the result.
  if (header !== undefined) {
    const name = header.name.toLowerCase();
    checks.push(({ headers }) => fixed(header.values, headers[name]));
  }
  if (pathSecrets !== undefined) checks.push(({ url }) => fixed(pathSecrets, secretInPath(url)));
  if (signature !== undefined) checks.push(createVerifier(signature));
  const [only, ...others] = checks;
  if (only === undefined) throw new Error("a source without any check");
  if (others.length === 0) return only;
  return (request) => {
    let verified = only(request);
    for (const check of others) {
      if (!verified.ok) return verified;
      verified = check(request);
    }
    return verified;
  };
}

function fixed(secrets: readonly Secret[], given: string | readonly string[] | undefined): Verified {
  if (given === undefined || given === "") return { ok: false, reason: "missing-signature" };
  const found = typeof given === "string" ? isAnyOf(secrets, given) : undefined;
  if (found === undefined) return { ok: false, reason: "no-match" };
  return { ok: true, secret: found.fingerprint(), headers: {}, digest: noDigest };
}

const noDigest = Buffer.alloc(0);

/** In a time that does not depend on the text. */
export function isAnyOf(secrets: readonly Secret[], text: string): Secret | undefined {
  const digest = digestOf(text);
  let found: Secret | undefined;
  for (const secret of secrets) if (timingSafeEqual(digestOf(secret.reveal()), digest)) found = secret;
  return found;
}

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest();

function secretInPath(url: string): string {
  const [path = ""] = url.split("?", 1);
  const secret = path.split("/").slice(3).join("/");
  try {
    return decodeURIComponent(secret);
  } catch {
    return secret;
  }
}

/** Bytes of a challenge. Meta's is a number of ten digits. */
const longestChallenge = 256;

const refusedAnswer = errorAnswer("forbidden", "hub.mode, hub.verify_token or hub.challenge is missing or wrong");

/** Meta's question whether a callback URL is meant. The challenge is opaque and never answered as HTML. */
export function answerHandshake(url: string, tokens: readonly Secret[]): { readonly isRight: boolean; readonly answer: Answer } {
  const query = new URLSearchParams(url.slice(url.indexOf("?") + 1));
  const challenge = query.get("hub.challenge") ?? "";
  const isRight = query.get("hub.mode") === "subscribe" && isAnyOf(tokens, query.get("hub.verify_token") ?? "") !== undefined;
  if (!isRight || challenge === "" || Buffer.byteLength(challenge) > longestChallenge) return { isRight: false, answer: refusedAnswer };
  const headers = [
    "content-type",
    "text/plain; charset=utf-8",
    "x-content-type-options",
    "nosniff",
    "content-length",
    String(Buffer.byteLength(challenge)),
  ];
  return { isRight: true, answer: { status: 200, headers, body: challenge } };
}

/** `place`: where it is in the settings. `secret`: its fingerprint. */
interface PlacedSecret {
  readonly source: string;
  readonly secret: string;
  readonly place: string;
}

interface StoredUsage {
  readonly source: string;
  readonly secret: string;
  readonly events: number;
  readonly duplicates: number;
  readonly firstAt: number | null;
  readonly lastAt: number | null;
}

/** `place` null: it was removed from the settings. */
type SecretUsage = StoredUsage & { readonly place: string | null };

/** First the secrets in the settings, even if unused, then removed ones. */
export function secretUsage(placed: readonly PlacedSecret[], stored: readonly StoredUsage[]): SecretUsage[] {
  const current = placed.map(({ source, secret, place }): SecretUsage => {
    const usage = stored.find((candidate) => candidate.source === source && candidate.secret === secret);
    return { ...(usage ?? { source, secret, events: 0, duplicates: 0, firstAt: null, lastAt: null }), place };
  });
  const removed = stored.filter(({ source, secret }) => !current.some((use) => use.source === source && use.secret === secret));
  return [...current, ...removed.map((usage) => ({ ...usage, place: null }))];
}
