import { printable, tableLines } from "../output.ts";
import type { AccountPlanView, AccountView } from "./views.ts";

export function summaryLines(accounts: readonly AccountView[]): string[] {
  return tableLines(
    ["account", "asked", "changed", "unchanged", "missing", "failed", "left for budget"],
    accounts.map(({ account, asked, changed, unchanged, missing, failed, leftForBudget }) => [
      account,
      ...[asked, changed, unchanged, missing, failed, leftForBudget].map(String),
    ]),
  );
}

export function planLines(accounts: readonly AccountPlanView[]): string[] {
  return tableLines(
    ["account", "due", "would ask", "left for budget"],
    accounts.map(({ account, due, wouldAsk, leftForBudget }) => [account, atLeast(due), String(wouldAsk), atLeast(leftForBudget)]),
  );
}

const stops: Readonly<Record<string, string>> = {
  unauthenticated: "the service refuses the API key",
  quota: "the month's quota is used up",
  blocked: "the service has blocked this address because of bad keys",
  unreachable: "the service cannot be reached",
  refused: "the service refuses polls",
  unreadable: "the service's answers cannot be read; is baseUrl right?",
  "not-found": "the service answers 404 to every poll; are baseUrl and apiKey of this account, and the ids of this service?",
};

/** Counts stop here (docs/endpoints.md, "POST /v1/reconcile"). */
const mostCounted = 20_000;

function atLeast(count: number): string {
  return count >= mostCounted ? `${mostCounted} or more` : String(count);
}

/** What a person should know besides, a line each. */
export function remarks(accounts: readonly (AccountView | AccountPlanView)[]): string[] {
  return accounts.flatMap(({ account: name, stopped, leftForBudget, lastsUntil, unaskable }) => {
    const account = printable(name);
    const until = stopped?.until == null ? "" : ` until ${printable(stopped.until)}`;
    const detail = stopped?.detail === undefined ? "" : ` (${printable(stopped.detail)})`;
    return [
      ...(stopped === null ? [] : [`${account}: stopped: ${stops[stopped.reason] ?? printable(stopped.reason)}${detail}${until}`]),
      ...(leftForBudget === 0
        ? []
        : [
            `${account}: ${atLeast(leftForBudget)} questions wait so that the month's quota lasts${
              lastsUntil === null ? "" : `; asked at this rate, it would last until ${printable(lastsUntil.slice(0, 10))}`
            }`,
          ]),
      ...(unaskable === 0
        ? []
        : [`${account}: ${atLeast(unaskable)} open messages are known by wamid alone, and nobody can ask about them`]),
    ];
  });
}
