import type { RelayEventDetail, Retried } from "../../client/relay-client.ts";
import { attemptText } from "../../model/words.ts";
import { relay } from "../app/api.ts";
import { now } from "../app/clock.ts";
import type { Result } from "./action.tsx";
import { count, duration } from "./format.ts";

/** How long a dialog waits for attempts. The page shows later ones. */
const withinMs = 10_000;
const pollEveryMs = 400;

type Outcomes = ReadonlyMap<string, number>;

interface Made {
  readonly outcomes: Outcomes;
  /** Why the route's destination is stopped now; null: it is not. */
  readonly stopped: string | null;
  /** For the route; null: not read. */
  readonly waiting: number | null;
}

/**
 * Repeats `look` until it finds something, time is up or the signal aborts. Returns what it saw
 * last.
 */
async function poll<T>(
  look: () => Promise<{ readonly seen: T; readonly isEnough: boolean }>,
  signal: AbortSignal,
): Promise<T> {
  const until = performance.now() + withinMs;
  for (;;) {
    const isLast = signal.aborted || performance.now() >= until;
    const { seen, isEnough } = await look();
    if (isEnough || isLast) return seen;
    await new Promise((resolve) => setTimeout(resolve, pollEveryMs));
  }
}

/** Counts the attempts of a route, or of all, that end from now on. */
export async function attemptsSince(route: string | undefined) {
  // By the relay's clock: the minute that is being counted.
  const { to } = await relay.getSeries({ name: "attempts", route });
  const from = new Date(Date.parse(to) - 60_000);
  const read = async (): Promise<Outcomes> =>
    new Map(
      (await relay.getSeries({ name: "attempts", route, from })).series.map(({ label, total }) => [
        label,
        total ?? 0,
      ]),
    );
  const before = await read();
  async function stateOf(watched: string) {
    const { at, destinations } = await relay.getOverview();
    return { at, ...destinations.find((each) => each.route === watched) };
  }
  const stoppedAt = route === undefined ? undefined : (await stateOf(route)).since;
  return {
    /**
     * Waits until there are `most` attempts. `watched`: a route of which the state is read as well.
     */
    reach(most: number, signal: AbortSignal, watched?: string): Promise<Made> {
      let shown: string | null = null;
      return poll(async () => {
        const outcomes = new Map(
          [...(await read())]
            .map(([label, n]) => [label, n - (before.get(label) ?? 0)] as const)
            .filter(([, n]) => n > 0),
        );
        const made = [...outcomes.values()].reduce((sum, n) => sum + n, 0);
        if (watched === undefined)
          return { seen: { outcomes, stopped: null, waiting: null }, isEnough: made >= most };
        const state = await stateOf(watched);
        // An overview from before the attempts shows the earlier stop.
        const stopped =
          state.state === "stopped" && state.since !== stoppedAt ? (state.reason ?? "") : null;
        const waiting = state.waiting ?? null;
        // Callers share an overview for a while. The next one is read after the attempts for
        // certain.
        const isEnough = stopped !== null || (shown !== null && state.at !== shown);
        if (made >= most || waiting === 0) shown ??= state.at;
        return { seen: { outcomes, stopped, waiting }, isEnough };
      }, signal);
    },
  };
}

export function whatHappened(done: string, { outcomes }: Made): Result {
  if (outcomes.size === 0) return { tone: "open", text: `${done} No attempt has ended yet.` };
  const failed = [...outcomes].filter(([label]) => label !== "delivered");
  const delivered = outcomes.get("delivered") ?? 0;
  const parts = [
    ...(delivered === 0 ? [] : [`${count(delivered)} delivered`]),
    ...failed.map(([label, n]) => `${count(n)} failed with ${label}`),
  ];
  return {
    tone: failed.length === 0 ? "ok" : delivered === 0 ? "stopped" : "attention",
    text: `${done} Attempts since: ${parts.join(", ")}.`,
  };
}

type Deliveries = RelayEventDetail["deliveries"];

export async function resultsOf(
  event: number,
  retried: readonly Retried[],
  before: Deliveries,
  signal: AbortSignal,
): Promise<Result> {
  const attempts = new Map(before.map(({ route, attempts }) => [route, attempts]));
  const results = await poll(async () => {
    const { deliveries } = await relay.getEvent({ id: event });
    const seen = retried.map((each) => resultOf(each, deliveries, attempts.get(each.route) ?? 0));
    return { seen, isEnough: seen.every(({ isFinal }) => isFinal) };
  }, signal);
  const worst = (["stopped", "attention", "open"] as const).find((tone) =>
    results.some((each) => each.tone === tone),
  );
  return { tone: worst ?? "ok", text: results.map(({ text }) => text).join(" ") };
}

function resultOf(
  { route, state, stopped, pausedUntil }: Retried,
  current: Deliveries,
  before: number,
): Result & { readonly isFinal: boolean } {
  const delivery = current.find((each) => each.route === route);
  const last = delivery?.attemptHistory.at(-1);
  if (delivery !== undefined && last !== undefined && last.number > before) {
    const { status, error, tookMs } = last;
    const what = `${route}: ${attemptText(status, error)} after ${duration(tookMs)}.`;
    if (delivery.state === "delivered")
      return { tone: "ok", text: `Delivered to ${what}`, isFinal: true };
    if (delivery.state === "dead")
      return { tone: "stopped", text: `${what} No attempt is left.`, isFinal: true };
    const next =
      delivery.nextAt === null
        ? ""
        : ` Next attempt in ${duration(Math.max(0, Date.parse(delivery.nextAt) - now()))}.`;
    return { tone: "attention", text: `${what}${next}`, isFinal: true };
  }
  if (state === "held")
    return {
      tone: "open",
      text: `${route}: it goes out after an earlier delivery of its message.`,
      isFinal: true,
    };
  if (stopped !== null)
    return {
      tone: "attention",
      text: `${route} is stopped: ${stopped}. It goes out once you resume it.`,
      isFinal: true,
    };
  if (pausedUntil !== null)
    return {
      tone: "attention",
      text: `${route} is paused. It goes out once the pause ends or you resume it.`,
      isFinal: true,
    };
  return { tone: "open", text: `${route}: no attempt has ended yet.`, isFinal: false };
}
