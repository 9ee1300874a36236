import type { RelayEvent } from "../../client/relay-client.ts";
import { count } from "../parts/format.ts";
import { Status, type Tone } from "../parts/status.tsx";

type State = keyof RelayEvent["deliveries"];
export type Outcome = Pick<RelayEvent, "disposition" | "deliveries" | "cause">;

/** The worst first: an event is as well off as the worst of its deliveries. */
const worstFirst: readonly State[] = ["dead", "waiting", "held", "delivered"];

const tone = (state: State, cause: string | null): Tone => {
  if (state === "waiting") return cause === null ? "open" : "attention";
  return state === "dead" ? "stopped" : state === "held" ? "open" : "ok";
};

/**
 * What became of an event: the state of its deliveries and why they fail. Without deliveries, the
 * result of routing.
 */
export function EventOutcome({ event: { disposition, deliveries, cause } }: { event: Outcome }) {
  const [worst, ...others] = worstFirst.filter((state) => (deliveries[state] ?? 0) > 0);
  if (worst === undefined) return <Status word={disposition} />;
  const words = (state: State) =>
    deliveries[state] === 1 && others.length === 0 ? state : `${count(deliveries[state])} ${state}`;
  return (
    <span class="outcome">
      <Status word={words(worst)} tone={tone(worst, cause)} />
      {cause !== null && <bdi class="cause">{cause}</bdi>}
      {others.length > 0 && <span class="dim">{others.map(words).join(", ")}</span>}
    </span>
  );
}

/** The same of deliveries that are there one by one. */
export function outcomeOf(
  disposition: Outcome["disposition"],
  all: readonly { readonly state: State; readonly cause: string | null }[],
): Outcome {
  const deliveries: Partial<Record<State, number>> = {};
  for (const { state } of all) deliveries[state] = (deliveries[state] ?? 0) + 1;
  const worst = deliveries.dead === undefined ? "waiting" : "dead";
  return {
    disposition,
    deliveries,
    cause: all.find(({ state, cause }) => state === worst && cause !== null)?.cause ?? null,
  };
}
