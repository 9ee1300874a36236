import type { RelayEventDetail } from "../../client/relay-client.ts";
import { giveUpText } from "../../model/words.ts";
import { plural } from "../parts/format.ts";

type Hydration = NonNullable<RelayEventDetail["hydration"]>;

const dispositions: Readonly<Record<RelayEventDetail["disposition"], string>> = {
  routed: "At least one route matched the event.",
  filtered: "No route matched the event.",
  ignored:
    "Its message is not registered, and every route that would match takes registered messages only.",
  quarantined:
    "The signature is right, but the body is not a valid event. The relay keeps the bytes and delivers nothing.",
  parked: "Each route that matches waits, as listed below.",
  released: "It was released from quarantine and became an event of its own.",
  unassigned:
    "No account of the settings has its business number. Once one has, it can be released.",
};

export const dispositionText = (disposition: RelayEventDetail["disposition"]): string =>
  dispositions[disposition];

const origins: Readonly<Record<string, string>> = {
  webhook: "webhook",
  hydrate: "hydration",
  reconcile: "reconciliation",
};

export const originText = (origin: string): string => origins[origin] ?? origin;

export function hydrationText({ state, reason, polled, foundCount }: Hydration): string {
  const work = `${plural(polled, "message")} polled, ${plural(foundCount, "change")} found`;
  if (state === "waiting")
    return `The service truncated this event. The relay polls its candidates: ${work}.`;
  if (state === "done")
    return `The service truncated this event. The relay read what it left out: ${work}.`;
  return `The service truncated this event. The relay gave up${reason === null ? "" : `, because ${giveUpText(reason)}`}: ${work}.`;
}

export const shellWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export function curlOfBody({
  headers,
  body,
  text,
}: Pick<RelayEventDetail, "headers" | "body" | "text">): string {
  const given = { "content-type": "application/json", ...headers };
  const flags = Object.entries(given).map(
    ([name, value]) => `-H ${shellWord(`${name}: ${value}`)}`,
  );
  const post = `curl ${flags.join(" ")} --data-binary`;
  // A command line holds no zero bytes, a terminal may change other control characters, and curl
  // reads the file after an `@`.
  return text === null || text.startsWith("@") || /[^\P{Cc}\n\t]/u.test(text)
    ? `printf %s ${shellWord(body)} | base64 -d | ${post} @- http://localhost:3000/hook`
    : `${post} ${shellWord(text)} http://localhost:3000/hook`;
}

export function prettyJson(text: string | null): string | null {
  try {
    return text === null ? null : JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}
