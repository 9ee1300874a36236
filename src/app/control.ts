import { randomBytes, randomInt } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { FastifyInstance } from "fastify";
import { keptAfterReload } from "../config/schema.ts";
import { createTokens } from "../control/auth.ts";
import { addConsoleRoutes } from "../control/console.ts";
import { createGuesses } from "../control/guesses.ts";
import { addControlRoutes, type PlainHandlers } from "../control/routes.ts";
import { createSessions } from "../control/session.ts";
import type { RegistrationOutcome, TrackPort } from "../control/track.ts";
import { type App, fingerprintOf, shakeHands } from "../deliver/destinations/url.ts";
import { appOf } from "../deliver/settings.ts";
import type { Diagnosis } from "../inspect/diagnosis.ts";
import { createGraphChecks } from "../inspect/graph-checks.ts";
import { createReadHandlers } from "../inspect/handlers.ts";
import { createListenHandlers } from "../inspect/listen.ts";
import type { Listening } from "../inspect/listening.ts";
import { createLive, createLiveHandlers } from "../inspect/live.ts";
import { createOverview } from "../inspect/overview.ts";
import { knownSources } from "../inspect/reading.ts";
import { type HandshakeView, type ReloadView, reloadSchema, type SettingsView } from "../model/answers.ts";
import type { Registration } from "../model/endpoints/send.ts";
import { badRequest, RelayError } from "../model/errors.ts";
import { refuseUnknown } from "../model/nearest.ts";
import type { OfAccounts, ReplayQuery } from "../model/queries.ts";
import { toAnswer } from "../model/view.ts";
import { conflictError, type MessageRegistration } from "../track/registration.ts";
import type { Delivering } from "./deliver.ts";
import { type Role, viewInstance } from "./engine.ts";
import { badTokenHook, revealedHook } from "./hooks.ts";
import type { Reloading } from "./reload.ts";
import { createReleasing, createReplaying } from "./replaying.ts";
import { fieldsOf } from "./rules.ts";
import { chooseAccount } from "./sending.ts";
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
    read: store.browse,
  });
  addControlRoutes(http, {
    sessions: createSessions({ tokens, claims: store, now, nonce: () => randomBytes(16).toString("base64url") }),
    tokens,
    revealed: revealedHook(parts),
    guess: createGuesses(now, (token, result) => metrics.guesses.inc({ token, result })),
    badToken: badTokenHook(parts, clock, parts.address),
    sending: service.sending,
    version: instance.version,
    tracking: createRegistering(parts),
    plain: {
      ...service.reconcile,
      ...createActing(parts),
      getOverview: overview,
      ...createListenHandlers(http, listening.port),
      ...createLiveHandlers(http, createLive({ read: store.browse, onStored: store.onStored, overview, clock, slice: listening.slice })),
      ...createReadHandlers({ ...store, now, breakers, isRunning: parts.run.dispatch, settings }),
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

/** How far the clocks may differ, in ms, for the time when a message was sent. */
const clocksDifferBy = 24 * 60 * 60 * 1000;

type ControlParts = Stored & Delivering & { readonly service: Service };

export function createActing(parts: ControlParts): Pick<PlainHandlers, "retryDelivery" | "replay" | "resumeRoute" | "resumeAccount"> {
  const { settings, store, clock, accepting, service, breakers, dispatcher, health } = parts;
  const { now } = clock;
  const { release } = accepting;
  const stopping = () => health.report().draining;
  const routeNames = () => settings().routes.map(({ name }) => name);
  const isRouted = (route: string) => routeNames().includes(route);
  const releasing = createReleasing({ store, now, sourceOf, release, stopping });
  const replaying = createReplaying({ store, now, isRouted, announce: store.announce, stopping });

  function sourceOf(name: string) {
    const { sources } = settings();
    const source = Object.hasOwn(sources, name) ? sources[name] : undefined;
    if (source?.kind !== "events") return null;
    const { account, format } = source;
    return { account, format, accounts: (source.format === "standard" ? null : source.accounts) ?? {}, fields: fieldsOf(source) };
  }

  const isRelease = ({ disposition }: Pick<ReplayQuery, "disposition">): boolean =>
    disposition === "quarantined" || disposition === "unassigned";

  function replayOf(query: ReplayQuery) {
    if (isRelease(query)) return releasing;
    refuseQuarantineOnly(query);
    if (query.route !== undefined) refuseUnknown("not_found", "route", query.route, routeNames());
    return replaying;
  }

  /** Ignoring a criterion would replay everything. */
  function refuseQuarantineOnly({ source, event }: ReplayQuery): void {
    if (source === undefined && event === undefined) return;
    const path = source === undefined ? "event" : "source";
    const message = "only with disposition: quarantined or unassigned";
    throw badRequest([{ path, message }]);
  }

  return {
    async retryDelivery({ id, accounts }) {
      const missing = () => new RelayError("not_found", "no such delivery");
      const delivery = await store.read.findDelivery(id);
      if (delivery === null) throw missing();
      const { event, route, state: previousState } = delivery;
      if (accounts !== undefined && !accounts.includes((await store.read.getEvent(event))?.account ?? "")) throw missing();
      // Without a route it would never settle, and retention would never delete it.
      if (!isRouted(route)) {
        throw new RelayError("conflict", `nothing would send it: its route "${route}" is not in the settings`, {
          route,
          state: previousState,
        });
      }
      const retried = await store.retry(event, route, now());
      if (retried === null) throw missing();
      if (retried.due !== null) store.announce([retried.due]);
      const stopped = await store.read.stopReason(route);
      return { id, route, state: retried.state, previousState, stopped, pausedUntil: (await breakers()).get(route)?.pausedUntil ?? null };
    },
    async replay({ dryRun, cursor, limit = Number.MAX_SAFE_INTEGER, ...filter }) {
      const { source } = filter;
      if (isRelease(filter) && source !== undefined)
        refuseUnknown("not_found", "source", source, await knownSources(settings(), store.read));
      const replayer = replayOf(filter);
      return dryRun ? replayer.count(filter) : replayer.replay(filter, cursor, limit);
    },
    async resumeRoute({ route }) {
      refuseUnknown("not_found", "route", route, routeNames());
      // The lane before the store, in the order in which a pause is stored: a later pause is kept.
      const endedHere = dispatcher.tryNow(route);
      const ended = await store.endPause(route, now());
      return { route, resumed: (await store.resume(route)) || ended || endedHere };
    },
    async resumeAccount({ account }) {
      refuseUnknown("not_found", "account", account, Object.keys(settings().accounts));
      const ended = await service.resumeAccount(account);
      return { account, resumed: ended.length > 0, ended };
    },
  };
}

export function createRegistering({ settings, store, clock, service }: ControlParts): TrackPort {
  const { now } = clock;
  const { registered } = service;

  /** Throws `bad_request` for a registration that is refused whatever is stored. */
  function checked(registration: Registration, limited: OfAccounts["accounts"]): MessageRegistration {
    const account = chooseAccount(registration.account, settings(), limited);
    if (registration.sentAt !== undefined && registration.sentAt > now() + clocksDifferBy) {
      throw badRequest([{ path: "sentAt", message: "lies in the future" }]);
    }
    return { ...registration, account };
  }

  function checkedOrRefused(registration: Registration, limited: OfAccounts["accounts"]): MessageRegistration | RelayError {
    try {
      return checked(registration, limited);
    } catch (error) {
      if (error instanceof RelayError) return error;
      throw error;
    }
  }

  return {
    async register(given, limited) {
      const registrations = given.map((registration) => checked(registration, limited));
      const { created, due } = await store.register(registrations, now());
      store.announce(due);
      if (created > 0) for (const { account, sentAt } of registrations) registered(account, sentAt);
      return { created, known: registrations.length - created };
    },
    async registerEach(registrations, limited) {
      const all = registrations.map((registration) => checkedOrRefused(registration, limited));
      const good = all.flatMap((each) => (each instanceof RelayError ? [] : [each]));
      const stored = await store.registerEach(good, now());
      let at = 0;
      return all.map((each): RegistrationOutcome => {
        if (each instanceof RelayError) return { result: "invalid", error: each.message, details: each.details };
        const { account, sentAt } = each;
        const outcome = stored[at++] as (typeof stored)[number];
        if (outcome.result === "conflict") {
          const { message: error, details } = conflictError(outcome.conflicts);
          return { result: "conflict", error, details };
        }
        store.announce(outcome.due);
        if (outcome.result === "created") registered(account, sentAt);
        return { result: outcome.result };
      });
    },
  };
}
