import type { RedisLink } from "../client.ts";
import { readScript } from "../script.ts";

/** A delivery as an audit sees it. */
export interface LookedDelivery {
  readonly event: number;
  readonly route: string;
  /** Its place in the list of states. */
  readonly state: number;
  readonly attempts: number;
  /** Attempts written down. */
  readonly tries: number;
  /** Letters, see `lua/inspect.lua`. */
  readonly places: string;
  readonly fields: ReadonlySet<string>;
}

const script = readScript("inspect");

/** Deliveries in one answer: each takes Redis some microseconds, in which it does nothing else. */
const atOnce = 200;

/** Gives those that are there, in the order asked for. */
export async function lookAtDeliveries(
  link: RedisLink,
  base: string,
  asked: readonly { readonly event: number; readonly route: string }[],
): Promise<LookedDelivery[]> {
  const looked: LookedDelivery[] = [];
  for (let from = 0; from < asked.length; from += atOnce) {
    const some = asked.slice(from, from + atOnce);
    const list = [base, ...some.flatMap(({ event, route }) => [String(event), route])];
    const found = (await link.run((redis) => script.run(redis, `${base}seq`, list))) as (string | string[])[];
    for (const [index, { event, route }] of some.entries()) {
      const one = found[index];
      if (one === undefined || typeof one === "string") continue;
      const [state, attempts, places = "", ...fields] = one;
      const tries = fields.filter((name) => /^a\d+$/.test(name)).length;
      looked.push({ event, route, state: Number(state), attempts: Number(attempts), tries, places, fields: new Set(fields) });
    }
  }
  return looked;
}

/** Why what is stored of a delivery, and the lists it stands in, cannot all be true; null when they can. */
export function contradiction({ state, attempts, places, fields }: LookedDelivery, isProxied: boolean): string | null {
  const inLists = places.replace(/[nb]/g, "");
  switch (state) {
    case 0:
      if (fields.has("t")) return "waits, and is settled";
      // What a proxied exchange came to is written by the exchange itself.
      if (isProxied) return inLists === "p" ? null : "is an exchange under way, and no list has it";
      if (!fields.has("n")) return "waits for no time";
      return inLists === "d" || inLists === "l" ? null : `waits, and ${inLists === "" ? "nobody would send it" : "is in wrong lists"}`;
    case 1:
      if (!fields.has("o")) return "is held, and nothing orders it";
      if (fields.has("n") || fields.has("t")) return "is held, and has a time";
      return inLists === "h" ? null : "is held, and the lists say otherwise";
    case 2:
      if (!fields.has("t") || fields.has("n")) return "is delivered, and its times say otherwise";
      if (inLists !== "") return "is delivered, and a list still has it";
      return attempts === 0 ? "is delivered without an attempt" : null;
    case 3:
      if (!fields.has("t") || fields.has("n")) return "is dead, and its times say otherwise";
      if (inLists !== "x") return "is dead, and the lists say otherwise";
      return fields.has("r") ? null : "is dead for no reason";
    default:
      return `has the unknown state ${state}`;
  }
}

/** Of one message on one route exactly one open delivery goes out, and all others are behind it (promise 3); null when so. */
export function disorder({ state, places, fields }: LookedDelivery): string | null {
  if (!fields.has("o")) return null;
  if (state === 0) return places.includes("n") ? null : "goes out, and another of its message is said to";
  if (state === 1) return places.includes("b") ? null : "is held behind none that goes out";
  return places.includes("n") ? "is settled, and others wait for it" : null;
}
