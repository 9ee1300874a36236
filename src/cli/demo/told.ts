import type { Arrival } from "../../sandbox/downstream/arrivals.ts";
import { everythingPath, statusesPath } from "./relay-settings.ts";

/** The first arrival of each delivery that the downstream took, on one path, in the order of taking. */
function takenOn(path: string, arrivals: readonly Arrival[]): Arrival[] {
  const known = new Set<string>();
  return arrivals.filter(({ path: at, deliveryId, answered }) => {
    if (at !== path || answered !== 200 || known.has(deliveryId)) return false;
    known.add(deliveryId);
    return true;
  });
}

/** From below (docs/states.md); `failed` is not the end. */
const climb = ["pending", "sent", "failed", "delivered", "read"];

/** What the downstream was told of tracked messages, transition by transition. */
export interface StatusesTold {
  /** No word of a message is `pending`, which its sender knows from the answer. */
  last(wamid: string): string;
  /** Transitions that were none: to a status no higher than the one told before. */
  readonly backwards: number;
}

export function statusesTold(arrivals: readonly Arrival[]): StatusesTold {
  const last = new Map<string, string>();
  const lastOf = (wamid: string) => last.get(wamid) ?? "pending";
  let backwards = 0;
  for (const { wamid, body } of takenOn(statusesPath, arrivals)) {
    const status = (JSON.parse(body?.toString("utf8") ?? "{}") as { data?: { status?: string } }).data?.status ?? "";
    if (wamid === null) continue;
    if (climb.indexOf(status) <= climb.indexOf(lastOf(wamid))) backwards += 1;
    last.set(wamid, status);
  }
  return { last: lastOf, backwards };
}

/** Ends of automation runs that the downstream was told. */
export function runsTold(arrivals: readonly Arrival[]): { readonly completed: number; readonly failed: number } {
  const kinds = takenOn(everythingPath, arrivals).map(
    ({ body }) => (JSON.parse(body?.toString("utf8") ?? "{}") as { event?: string }).event,
  );
  const of = (kind: string) => kinds.filter((one) => one === kind).length;
  return { completed: of("automation.completed"), failed: of("automation.failed") };
}
