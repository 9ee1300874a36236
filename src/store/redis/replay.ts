import type { Replayed, ReplayFilter, ReplayFound, Retried } from "../port.ts";
import type { DueDelivery } from "../rules.ts";
import { stateCode, stateOf } from "./event-rows.ts";
import type { Transact } from "./transact.ts";

/** Deliveries in one step. */
const mostAtOnce = 200;

/** Settled deliveries made to wait again, under their old ids, in order. */
export function createReplay(transact: Transact) {
  async function replaySome(found: ReplayFound["found"], states: ReplayFilter["states"], at: number, due: DueDelivery[]): Promise<number> {
    const codes = states.map(stateCode).join("");
    let replayed = 0;
    await transact((tx) => {
      for (const { event, route } of found) {
        // Since it was found, somebody may have retried it or retention taken it away.
        tx.operate(["replay", String(event), route, String(at), codes], (state) => {
          if (state === "") return;
          replayed += 1;
          if (state === "0") due.push({ route, event, at });
        });
      }
    });
    return replayed;
  }

  return {
    /** Those of `found` that are still settled wait again. */
    async replay(found: ReplayFound["found"], states: ReplayFilter["states"], at: number): Promise<Replayed> {
      const due: DueDelivery[] = [];
      let replayed = 0;
      for (let from = 0; from < found.length; from += mostAtOnce) {
        replayed += await replaySome(found.slice(from, from + mostAtOnce), states, at, due);
      }
      return { replayed, due };
    },
    /** One delivery, retried whatever its state: a settled one waits again, a waiting one goes out at once. */
    async retry(event: number, route: string, at: number): Promise<Retried | null> {
      let code = "";
      await transact((tx) => {
        tx.operate(["retry", String(event), route, String(at)], (result) => {
          code = String(result);
        });
      });
      if (code === "") return null;
      const state = stateOf(code);
      return { state, due: state === "waiting" ? { route, event, at } : null };
    },
  };
}
