import type { Secret } from "../model/secret.ts";
import { type Answer, errorAnswer } from "./answer.ts";
import { isAnyOf } from "./check.ts";

/** Bytes of a challenge. Meta's is a number of ten digits. */
const longestChallenge = 256;

const refusedAnswer = errorAnswer("forbidden", "hub.mode, hub.verify_token or hub.challenge is missing or wrong");

/**
 * Answers `GET ?hub.mode=subscribe&hub.challenge=…&hub.verify_token=…`, with which Meta asks whether a callback URL is meant.
 * The challenge is opaque. It is never answered as HTML.
 */
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
