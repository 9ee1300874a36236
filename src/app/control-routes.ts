import { randomBytes, randomInt } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { FastifyInstance } from "fastify";
import { keptAfterReload } from "../config/schema.ts";
import { createTokens } from "../control/auth.ts";
import { addConsoleRoutes } from "../control/console.ts";
import { createGuesses } from "../control/guesses.ts";
import { addControlRoutes } from "../control/routes.ts";
import { createSessions } from "../control/session.ts";
import { type App, fingerprintOf, shakeHands } from "../deliver/destinations/url.ts";
import { appOf } from "../deliver/settings.ts";
import type { Diagnosis } from "../inspect/diagnosis.ts";
import { createExplaining } from "../inspect/explaining.ts";
import { createGraphChecks } from "../inspect/graph-checks.ts";
import type { Listening } from "../inspect/listening.ts";
import { createLive } from "../inspect/live.ts";
import { createOverview } from "../inspect/overview.ts";
import { createReadingPort, createStoredHandlers } from "../inspect/reading.ts";
import { type HandshakeView, type ReloadView, reloadSchema, type SettingsView } from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import { refuseUnknown } from "../model/nearest.ts";
import { toAnswer } from "../model/view.ts";
import { createActing, createRegistering } from "./control.ts";
import type { Delivering } from "./deliver.ts";
import type { Role } from "./engine.ts";
import { badTokenHook, revealedHook } from "./hooks.ts";
import { viewInstance } from "./instance.ts";
import type { Reloading } from "./reload.ts";
import type { Service } from "./service.ts";
import type { Stored } from "./store.ts";

interface ControlRoutesParts extends Stored, Delivering {
  readonly service: Service;
  readonly diagnose: () => Promise<Diagnosis>;
  readonly listening: Listening;
  readonly reloading: Reloading;
  readonly address: (request: IncomingMessage) => string;
  readonly role: Exclude<Role, "work">;
}

export function addRelayRoutes(http: FastifyInstance, parts: ControlRoutesParts): void {
  const { live, settings, store, clock, service, dispatcher, breakers, diagnose, listening, reloading } = parts;
  const { instance, redactor, metrics, role } = parts;
  const { now } = clock;
  const { initial } = live;
  const tokens = live.derive(({ control }) => createTokens(control.tokens));
  addConsoleRoutes(http);
  const handshake = createHandshakes(parts);
  const checkSource = createGraphChecks({ settings, redact: redactor.text });
  const overview = createOverview({
    relay: { ...instance, storage: initial.storage.driver },
    now,
    settings,
    diagnose,
    lanes: dispatcher.states,
    hasOtherWorkers: async () =>
      (await parts.processes()).some(({ id, role: other }) => id !== instance.instance && other !== "receive" && other !== "command"),
    history: store.browse.history,
    handshakes: store.browse.handshakes,
  });
  addControlRoutes(http, {
    sessions: createSessions({ tokens, claims: store, now, nonce: () => randomBytes(16).toString("base64url") }),
    tokens,
    revealed: revealedHook(parts),
    guess: createGuesses(now, (token, result) => metrics.guesses.inc({ token, result })),
    badToken: badTokenHook(parts, clock, parts.address),
    sending: service.sending,
    explain: createExplaining({ read: store.read, now, breakers }),
    listening: listening.port,
    history: { now, series: store.inspecting.series, quality: store.inspecting.quality },
    live: createLive({ read: store.browse, onStored: store.onStored, overview, clock, slice: listening.slice }),
    reading: createReadingPort(store.browse, store.inspecting),
    tracking: createRegistering(parts),
    plain: {
      ...service.reconcile,
      ...createActing(parts),
      getOverview: overview,
      ...createStoredHandlers({ read: store.read, inspecting: store.inspecting, now, isRunning: parts.run.dispatch, settings }),
      performHandshake: ({ route, repeat }) => handshake(route, repeat),
      checkSource: ({ source }) => checkSource(source),
      getInstance: () => viewInstance(instance, role, initial),
      getSettings: createSettingsView(parts),
      listListeners: async () => ({ data: await listening.list() }),
      reloadSettings: () => reloadNow(parts),
      getReload: reloading.last,
    },
  });
}

/** Reads the settings again. Throws `settings_refused` with the report. */
async function reloadNow({ run: { reread }, reloading }: ControlRoutesParts): Promise<ReloadView> {
  if (reread === undefined) throw new RelayError("conflict", "this process was not started with a settings file");
  const view = await reloading.reload(reread, "api");
  if (view.result === "applied") return view;
  const [first] = view.faults;
  const more = view.faults.length > 1 ? ` and ${view.faults.length - 1} more` : "";
  const message = `the settings were not reloaded: ${first?.path} ${first?.message}${more}`;
  throw new RelayError("settings_refused", message, toAnswer(reloadSchema, view));
}

function createSettingsView({ run: { file }, live, reloading }: ControlRoutesParts): () => Promise<SettingsView> {
  // Loaded and made at the first request after a reload: few relays get one, and with a thousand routes it takes long.
  const printed = live.derive((now) => {
    let made: Promise<SettingsView["settings"]> | undefined;
    const print = async () => (await import("../config/print.ts")).printableSettings({ ...now, ...keptAfterReload(live.initial, now) });
    return () => (made ??= print());
  });
  return async () => ({ loadedAt: reloading.last().loadedAt, file, settings: await printed()() });
}

/**
 * Meta's handshakes with destinations. A success is stored and not repeated unless asked for, because some apps delete the token
 * with the first one. Callers at the same time share one, for the same reason.
 */
function createHandshakes({ settings, store, clock, redactor }: ControlRoutesParts) {
  const running = new Map<string, Promise<Omit<HandshakeView, "route">>>();

  async function perform(app: App, repeat: boolean): Promise<Omit<HandshakeView, "route">> {
    const fingerprint = fingerprintOf(app);
    const known = (await store.read.handshakes()).get(fingerprint) ?? null;
    if (known !== null && !repeat) return { result: "remembered", doneAt: known, problem: null };
    // A decimal integer of some digits, as Meta's: consumers parse it as a number.
    const problem = await shakeHands(app, app.verifyToken.reveal(), String(randomInt(1e9, 1e14)));
    if (problem !== null) return { result: "failed", doneAt: known, problem: redactor.text(problem) };
    const doneAt = clock.now();
    await store.noteHandshake(fingerprint, doneAt);
    return { result: "done", doneAt, problem: null };
  }

  /** Throws `not_found` for a route that is not in the settings, and `conflict` for one without a `verifyToken`. */
  return async (name: string, repeat: boolean): Promise<HandshakeView> => {
    const { routes } = settings();
    const names = routes.map((each) => each.name);
    refuseUnknown("not_found", "route", name, names);
    const route = routes.find((each) => each.name === name);
    const app = route === undefined ? null : appOf(route);
    if (app === null) throw new RelayError("conflict", `the route "${name}" has no to.verifyToken, which a handshake needs`);
    const key = fingerprintOf(app);
    const shared = running.get(key) ?? perform(app, repeat).finally(() => running.delete(key));
    running.set(key, shared);
    return { ...(await shared), route: name };
  };
}
