import { randomInt } from "node:crypto";
import type { HandshakeView } from "../model/answers/actions.ts";
import { RelayError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { refuseUnknown } from "../model/nearest.ts";
import { type App, fingerprintOf, shakeHands } from "./destinations/url.ts";
import { appOf, type LaneSettings } from "./settings.ts";

interface HandshakeParts {
  readonly routes: () => readonly Pick<LaneSettings, "name" | "to">[];
  readonly store: {
    readonly read: { handshakes(): MaybePromise<ReadonlyMap<string, number>> };
    noteHandshake(fingerprint: string, at: number): Promise<void>;
  };
  readonly now: () => number;
  readonly redact: (text: string) => string;
}

/**
 * Meta's handshakes with destinations. A success is stored and not repeated unless asked for,
 * because some apps delete the token with the first one. Callers at the same time share one, for
 * the same reason.
 */
export function createHandshakes({ routes, store, now, redact }: HandshakeParts) {
  const running = new Map<string, Promise<Omit<HandshakeView, "route">>>();

  async function perform(app: App, repeat: boolean): Promise<Omit<HandshakeView, "route">> {
    const fingerprint = fingerprintOf(app);
    const known = (await store.read.handshakes()).get(fingerprint) ?? null;
    if (known !== null && !repeat) return { result: "remembered", doneAt: known, problem: null };
    // A decimal integer of some digits, as Meta's: consumers parse it as a number.
    const problem = await shakeHands(app, app.verifyToken.reveal(), String(randomInt(1e9, 1e14)));
    if (problem !== null) return { result: "failed", doneAt: known, problem: redact(problem) };
    const doneAt = now();
    await store.noteHandshake(fingerprint, doneAt);
    return { result: "done", doneAt, problem: null };
  }

  /**
   * Throws `not_found` for a route that is not in the settings, and `conflict` for one without a
   * `verifyToken`.
   */
  return async (name: string, repeat: boolean): Promise<HandshakeView> => {
    const all = routes();
    refuseUnknown(
      "not_found",
      "route",
      name,
      all.map((each) => each.name),
    );
    const route = all.find((each) => each.name === name);
    const app = route === undefined ? null : appOf(route);
    if (app === null)
      throw new RelayError(
        "conflict",
        `the route "${name}" has no to.verifyToken, which a handshake needs`,
      );
    const key = fingerprintOf(app);
    const shared = running.get(key) ?? perform(app, repeat).finally(() => running.delete(key));
    running.set(key, shared);
    return { ...(await shared), route: name };
  };
}
