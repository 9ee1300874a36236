import type { ShownHydration } from "./control-views.ts";
import { printable } from "./printable.ts";
import type { PrivateView } from "./private-view.ts";
import { timeText } from "./time-options.ts";

/** Most news or runs that are listed. */
const mostListed = 10;

const reasons: Record<string, string> = {
  "not-readable": "the service's API has no way to read what it was about",
  "no-key": "the account has no baseUrl and apiKey in the settings",
  "too-long": "hydrate.giveUpAfter was over; the rest is left to reconciliation",
};

/** What became of an event that came without its data, for a person. */
export function hydrationLines(hydration: ShownHydration, view: PrivateView): string[] {
  const { state, reason, asked, found, foundCount, unknown, candidates, settledAt } = hydration;
  const ended = settledAt === null ? "" : ` ${timeText(settledAt)} UTC`;
  return [
    "hydration (it came without its data)",
    field("state", `${state}${ended}${reason === null ? "" : `: ${reasons[reason] ?? reason}`}`),
    field("asked", `${asked} messages`),
    field("found", foundCount === 0 ? "no news" : `${foundCount} news, as events of their own`),
    ...listed(
      found.map(
        ({ seq, wamid, status }) =>
          `${seq}: ${wamid === null ? "a message" : view.subject({ type: "message", key: wamid })} ${status === null ? "" : view.text(status)}`,
      ),
      foundCount,
    ),
    field("unknown", unknown === null ? "not counted" : unknown === 0 ? "nothing" : `${unknown} that could be meant were not read`),
    ...(candidates === null ? [] : candidateLines(candidates, view)),
    "",
  ];
}

function candidateLines(candidates: NonNullable<ShownHydration["candidates"]>, view: PrivateView): string[] {
  if (candidates.length === 0) return [field("could be", "no run that is open")];
  return [
    field("could be", "one of these open runs"),
    ...listed(
      candidates.map(({ runId, reference }) => `${view.id("run", runId)}${reference === null ? "" : ` (${view.text(reference)})`}`),
      candidates.length,
    ),
  ];
}

function listed(lines: readonly string[], count: number): string[] {
  const shown = lines.slice(0, mostListed).map((line) => `    ${printable(line)}`);
  return count > shown.length ? [...shown, `    … ${count - shown.length} more`] : shown;
}

function field(name: string, value: string): string {
  return `  ${name.padEnd(12)} ${printable(value)}`;
}
