import { InvalidArgumentError } from "commander";

/** Where a relay takes events that nothing else is said about. */
export const usualWebhook = "http://127.0.0.1:8080/webhooks/main";

/** What a call to the API can meet instead of its answer. */
const answers = ["500", "502", "429", "hang", "reset", "malformed"] as const;

export interface FailOption {
  readonly answer: 500 | 502 | 429 | "hang" | "reset" | "malformed";
  readonly share: number;
}

/** A share of all, from 0 to 1. */
export function share(text: string): number {
  const number = Number(text);
  if (text.trim() === "" || !(number >= 0 && number <= 1)) throw new InvalidArgumentError("It must be a share from 0 to 1, such as 0.1.");
  return number;
}

export function port(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new InvalidArgumentError("It must be a port from 0 to 65535 (0: any free one).");
  return Number(text);
}

export function speed(text: string): number {
  const number = Number(text);
  if (!(number > 0 && number <= 1e6)) throw new InvalidArgumentError("It must be a number above 0, such as 10.");
  return number;
}

/** `500`, `hang:0.1`; may be repeated. */
export function fail(text: string, before: readonly FailOption[] = []): FailOption[] {
  const [answer = "", part = "1", ...rest] = text.split(":");
  if (!answers.some((known) => known === answer) || rest.length > 0) {
    throw new InvalidArgumentError(`It must be one of ${answers.join(", ")}, and a share after a colon, such as 500:0.1.`);
  }
  return [...before, { answer: (/^\d/.test(answer) ? Number(answer) : answer) as FailOption["answer"], share: share(part) }];
}

/** An http or https URL; may be repeated. */
export function webhook(text: string, before: readonly string[] | boolean = []): string[] {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw new InvalidArgumentError("It must be an http or https URL.");
  return [...(Array.isArray(before) ? (before as string[]) : []), text];
}
