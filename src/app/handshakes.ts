import type { Settings } from "../config/schema.ts";
import { type App, appOf, fingerprintOf, shakeHands } from "../deliver/destinations/handshake.ts";
import type { HandshakeView } from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import { unknownName } from "../model/nearest.ts";
import type { Store } from "../store/create-store.ts";

interface HandshakeParts {
  readonly store: Pick<Store, "noteHandshake"> & { readonly read: Pick<Store["read"], "handshakes"> };
  readonly settings: () => Pick<Settings, "routes">;
  readonly now: () => number;
  /** A decimal integer of some digits, as Meta's: consumers parse it as a number. */
  readonly challenge: () => number;
  readonly redact: (text: string) => string;
}

/**
 * Meta's handshakes with destinations. A success is stored and not repeated unless asked for, because some apps delete the token
 * with the first one. Callers at the same time share one, for the same reason.
 */
export function createHandshakes({ store, settings, now, challenge, redact }: HandshakeParts) {
  const running = new Map<string, Promise<HandshakeView>>();

  async function perform(route: string, app: App, repeat: boolean): Promise<HandshakeView> {
    const fingerprint = fingerprintOf(app);
    const known = (await store.read.handshakes()).get(fingerprint) ?? null;
    if (known !== null && !repeat) return { route, result: "remembered", doneAt: known, problem: null };
    const problem = await shakeHands(app, app.verifyToken.reveal(), String(challenge()));
    if (problem !== null) return { route, result: "failed", doneAt: known, problem: redact(problem) };
    const doneAt = now();
    await store.noteHandshake(fingerprint, doneAt);
    return { route, result: "done", doneAt, problem: null };
  }

  /** Throws `not_found` for a route that is not in the settings, and `conflict` for one without a `verifyToken`. */
  return async (name: string, repeat: boolean): Promise<HandshakeView> => {
    const { routes } = settings();
    const route = routes.find((each) => each.name === name);
    const names = routes.map((each) => each.name);
    if (route === undefined) throw new RelayError("not_found", unknownName("route", name, names), names);
    const app = appOf(route);
    if (app === null) throw new RelayError("conflict", `the route "${name}" has no to.verifyToken, which a handshake needs`);
    const key = fingerprintOf(app);
    const shared = running.get(key) ?? perform(name, app, repeat).finally(() => running.delete(key));
    running.set(key, shared);
    return { ...(await shared), route: name };
  };
}
