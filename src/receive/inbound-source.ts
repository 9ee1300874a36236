import { hash, timingSafeEqual } from "node:crypto";
import type { FieldPaths } from "../model/event.ts";
import type { FormatName } from "../model/formats/formats.ts";
import type { Secret } from "../model/secret.ts";
import type { SignatureSettings } from "../model/signature.ts";
import { type Answer, errorAnswer } from "./http.ts";

export interface InboundSource {
  readonly name: string;
  readonly account: string;
  readonly kind: "events" | "automation-request";
  readonly mode: "ack" | "proxy";
  readonly signature: (SignatureSettings & { readonly secrets: readonly Secret[] }) | undefined;
  readonly fields: FieldPaths;
  readonly several?: SeveralSettings | undefined;
}

/** `header` and `pathSecrets` are for senders that do not sign, or do more than that. */
export interface SeveralSettings {
  readonly format: FormatName;
  readonly accounts: Readonly<Record<string, string>>;
  readonly verifyTokens: readonly Secret[];
  readonly header?: { readonly name: string; readonly values: readonly Secret[] } | undefined;
  /** Any of them is the last part of the path. */
  readonly pathSecrets?: readonly Secret[] | undefined;
}

/** In a time that does not depend on the text. */
export function isAnyOf(secrets: readonly Secret[], text: string): Secret | undefined {
  const digest = digestOf(text);
  let found: Secret | undefined;
  for (const secret of secrets)
    if (timingSafeEqual(digestOf(secret.reveal()), digest)) found = secret;
  return found;
}

const digestOf = (text: string): Buffer => hash("sha256", text, "buffer");

/** Bytes of a challenge. Meta's is a number of ten digits. */
const longestChallenge = 256;

const refusedAnswer = errorAnswer(
  "forbidden",
  "hub.mode, hub.verify_token or hub.challenge is missing or wrong",
);

/**
 * Meta's question whether a callback URL is meant. The challenge is opaque and never answered as
 * HTML.
 */
export function answerHandshake(
  url: string,
  tokens: readonly Secret[],
): { readonly isRight: boolean; readonly answer: Answer } {
  const query = new URLSearchParams(url.slice(url.indexOf("?") + 1));
  const challenge = query.get("hub.challenge") ?? "";
  const isRight =
    query.get("hub.mode") === "subscribe" &&
    isAnyOf(tokens, query.get("hub.verify_token") ?? "") !== undefined;
  if (!isRight || challenge === "" || Buffer.byteLength(challenge) > longestChallenge)
    return { isRight: false, answer: refusedAnswer };
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
