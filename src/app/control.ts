import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { FastifyInstance } from "fastify";
import { keptAfterReload } from "../config/schema.ts";
import { createTokens } from "../control/auth.ts";
import { addConsoleRoutes } from "../control/console.ts";
import { createGuesses } from "../control/guesses.ts";
import { addControlRoutes } from "../control/routes.ts";
import { createSessions } from "../control/session.ts";
import { createHandshakes } from "../deliver/handshakes.ts";
import { untilFailed } from "../inspect/count.ts";
import type { Diagnosis } from "../inspect/diagnosis.ts";
import { createGraphChecks } from "../inspect/graph-checks.ts";
import { createReadHandlers } from "../inspect/handlers.ts";
import { createListenHandlers } from "../inspect/listen.ts";
import type { Listening } from "../inspect/listening.ts";
import { createLive, createLiveHandlers } from "../inspect/live.ts";
import { createOverview } from "../inspect/overview.ts";
import { type ReloadView, reloadSchema, type SettingsView } from "../model/answers/relay.ts";
import { RelayError } from "../model/errors.ts";
import { toAnswer } from "../model/view.ts";
import type { Intake } from "./accept.ts";
import { createActing } from "./acting.ts";
import type { Delivering } from "./deliver.ts";
import { type Role, viewInstance } from "./engine.ts";
import { badTokenHook, revealedHook } from "./hooks.ts";
import { createRegistering } from "./registering.ts";
import type { Reloading } from "./reload.ts";
import type { Service } from "./service.ts";
import type { Stored } from "./store.ts";

interface ControlRoutesParts extends Stored, Delivering {
  readonly service: Service;
  readonly intake: Intake;
  readonly diagnose: () => Promise<Diagnosis>;
  readonly listening: Listening;
  readonly reloading: Reloading;
  readonly address: (request: IncomingMessage) => string;
  readonly role: Exclude<Role, "work">;
}

export function addRelayRoutes(http: FastifyInstance, parts: ControlRoutesParts): void {
  const {
    live,
    settings,
    store,
    clock,
    service,
    dispatcher,
    health,
    breakers,
    diagnose,
    listening,
    reloading,
  } = parts;
  const { instance, redactor, metrics, role } = parts;
  const { now } = clock;
  const { initial } = live;
  const tokens = live.derive(({ control }) => createTokens(control.tokens));
  addConsoleRoutes(http);
  const handshake = createHandshakes({
    routes: () => settings().routes,
    store,
    now,
    redact: redactor.text,
  });
  const checkSource = createGraphChecks({ settings, redact: redactor.text });
  const overview = createOverview({
    relay: { ...instance, storage: initial.storage.driver },
    now,
    settings,
    diagnose,
    lanes: dispatcher.states,
    hasOtherWorkers: async () =>
      (await parts.processes()).some(
        ({ id, role: other }) =>
          id !== instance.instance && other !== "receive" && other !== "command",
      ),
    read: {
      ...store.browse,
      lastHour: (at) => untilFailed(store.browse.lastHour(at), health.failure),
    },
  });
  addControlRoutes(http, {
    sessions: createSessions({
      tokens,
      claims: store,
      now,
      nonce: () => randomBytes(16).toString("base64url"),
    }),
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
      ...createLiveHandlers(
        http,
        createLive({
          read: store.browse,
          onStored: store.onStored,
          overview,
          clock,
          slice: listening.slice,
        }),
      ),
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
  if (reread === undefined)
    throw new RelayError("conflict", "this process was not started with a settings file");
  const view = await reloading.reload(reread, "api");
  if (view.result === "applied") return view;
  const [first] = view.faults;
  const more = view.faults.length > 1 ? ` and ${view.faults.length - 1} more` : "";
  const message = `the settings were not reloaded: ${first?.path} ${first?.message}${more}`;
  throw new RelayError("settings_refused", message, toAnswer(reloadSchema, view));
}

function createSettingsView({
  run: { file },
  live,
  reloading,
}: ControlRoutesParts): () => Promise<SettingsView> {
  // Loaded and made at the first request after a reload: few relays get one, and with a thousand
  // routes it takes long.
  const printed = live.derive((now) => {
    let made: Promise<SettingsView["settings"]> | undefined;
    const print = async () =>
      (await import("../config/print.ts")).printableSettings({
        ...now,
        ...keptAfterReload(live.initial, now),
      });
    return () => (made ??= print());
  });
  return async () => ({ loadedAt: reloading.last().loadedAt, file, settings: await printed()() });
}
