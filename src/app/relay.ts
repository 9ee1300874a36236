import { randomBytes, randomInt } from "node:crypto";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { keptAfterReload, type Settings } from "../config/schema.ts";
import { placedSecrets } from "../config/sources.ts";
import { createTokens } from "../control/auth.ts";
import { addConsoleRoutes } from "../control/console.ts";
import { addEndpoints } from "../control/endpoint.ts";
import { createGuesses } from "../control/guesses.ts";
import { addMetricsRoute, createProbeHandlers } from "../control/operate.ts";
import { addControlRoutes } from "../control/routes.ts";
import { createSessions } from "../control/session.ts";
import { createDestinations, redactAnswer, redactAnswers } from "../deliver/destinations/create.ts";
import { createUrlDestination } from "../deliver/destinations/url.ts";
import { createDispatcher } from "../deliver/dispatcher.ts";
import { createProxy } from "../deliver/proxy.ts";
import type { ReloadView } from "../model/answers.ts";
import type { BreakerView } from "../model/breaker.ts";
import type { Clock } from "../model/clock.ts";
import type { DatabaseFacts } from "../model/database.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { createRedactor } from "../model/redact.ts";
import type { Steps } from "../model/steps.ts";
import { systemClock } from "../model/system-clock.ts";
import { relayVersion } from "../model/version.ts";
import { alarmView, createHealth } from "../observe/health.ts";
import { createLogger, createPrivacy, type Logger, type LogStream, type Privacy } from "../observe/logger.ts";
import { createMetrics } from "../observe/metrics.ts";
import { createArrivals } from "../receive/arrivals.ts";
import { clientAddress } from "../receive/client-address.ts";
import { createReceiver } from "../receive/receiver.ts";
import { secretUsage } from "../receive/signature/usage.ts";
import { noQuarantine } from "../store/views.ts";
import { createAccepting } from "./accept.ts";
import { createCleanup } from "./cleanup.ts";
import { createControlPort } from "./control.ts";
import { createDiagnosis } from "./diagnosis.ts";
import { checkRole, type Role } from "./engine.ts";
import { createExplaining } from "./explaining.ts";
import { createCount, createGaugeReader } from "./gauges.ts";
import { createGraphChecks } from "./graph-checks.ts";
import { createHandshakes } from "./handshakes.ts";
import { apiHook, badTokenHook, laneHooks, planningFailed, receiverHooks, revealedHook, storeHooks } from "./hooks.ts";
import { createInstance, viewInstance } from "./instance.ts";
import { createListening } from "./listening.ts";
import { createLive } from "./live.ts";
import { openStore, storeName } from "./open-store.ts";
import { createOverview } from "./overview.ts";
import { perSettings } from "./per-settings.ts";
import { createAuditing, knownSources } from "./reading.ts";
import { createReloading, type RereadSettings } from "./reload.ts";
import { createRules, inboundSources, proxiedSources } from "./rules.ts";
import { createServiceSide } from "./service.ts";
import { createSourceNotes, viewSources } from "./source-notes.ts";
import { storedBreakers } from "./stored-breakers.ts";
import { createSupervisor, type Supervised, type Supervisor } from "./supervise.ts";
import type { Tracing } from "./tracing.ts";
import { endLeftExchanges, startUpkeep } from "./upkeep.ts";
import { inForce } from "./watching.ts";
import { createWebServer, type ListenAddress, type WebhookHandler, type WebServer } from "./web-server.ts";

export interface RelayOptions {
  readonly settings: Settings;
  readonly log: LogStream;
  /** Reads the settings file again; throws `SettingsError`. Without it, only `reload(settings)` changes the settings. */
  readonly reread?: () => MaybePromise<RereadSettings>;
  /** The path of the settings file, for people. */
  readonly file?: string | null;
  /** Default: the system's, or for a store that processes share, the store's. */
  readonly clock?: Clock;
  readonly random?: () => number;
  /** Default: `both`. */
  readonly role?: Role;
  /** False: nothing is sent; for a command that only writes to the store. */
  readonly dispatch?: boolean;
  /** Whether the messaging service is called. Default: `dispatch`. */
  readonly calls?: boolean;
}

export interface Relay {
  /** Every page except the webhooks, also where `server.control` has them. `inject` calls it without a socket. */
  readonly http: FastifyInstance;
  readonly server: Server;
  listen(): Promise<AddressInfo>;
  /** Applies these settings, or those of `reread`; or reports why not. */
  reload(settings?: Settings): Promise<ReloadView>;
  /** Stops accepting, lets what is in flight finish within `server.shutdownTimeout`, closes the store. */
  close(): Promise<void>;
  /** Logs an uncaught error; resolves once the line is written. The process must end then. */
  crash(error: unknown): Promise<void>;
}

/**
 * The composition root: the only place where the parts are created and connected. Nothing listens until `listen`. Throws
 * `StoreRefused` when the store cannot be opened.
 */
export async function createRelay({
  settings: initial,
  log: stream,
  reread,
  file = null,
  clock: given,
  random = () => randomInt(2 ** 32) / 2 ** 32,
  role = "both",
  dispatch = true,
  calls = dispatch,
}: RelayOptions): Promise<Relay> {
  checkRole(role, initial.storage);
  const receives = role !== "work";
  const works = dispatch && role !== "receive";
  let settings = initial;
  const current = () => settings;
  const { shutdownTimeout } = initial.server;
  /** Run in reverse order by `close`. */
  const cleanup = createCleanup();
  cleanup.defer(() => stream.end());

  const instance = createInstance(Date.now());
  const redactor = createRedactor(settings);
  const log = createLogger(settings.log, stream, redactor);
  cleanup.defer(() => log.info("stopped"));
  const privacy = createPrivacy(settings.log.pii, redactor);
  const tracing = dispatch ? await openTracing(settings.traces, log, privacy) : null;
  if (tracing !== null) cleanup.defer(tracing.close);
  const health = createHealth();
  const arrivals = createArrivals();
  const rules = createRules(settings, (error, event) => planningFailed(watchers, error, event));

  const metrics = createMetrics({ version: relayVersion(), node: process.versions.node, storage: settings.storage.driver });
  const watchers = { log, privacy, metrics };
  let supervisor: Supervisor | undefined;
  const {
    store,
    clock,
    lanes,
    budgets,
    processes = () => [],
    database = () => null,
  } = await openStore(settings.storage, {
    role: dispatch ? role : "command",
    instance: instance.instance,
    rules,
    hooks: storeHooks({ ...watchers, health, arriving: arrivals.expected, recovered: () => supervisor?.retry() }),
    clock: given,
  });
  cleanup.defer(store.close);
  supervisor = createSupervisor({ clock, log });
  const { supervise, close: endTasks } = supervisor;

  const untraced = createAccepting({
    store,
    settings: current,
    arrived: (event) => service.arrived(event),
    truncated: (event) => service.truncated(event),
    metrics,
    log,
    privacy,
  });
  const accepting = tracing?.accepting(untraced) ?? untraced;
  const service = createServiceSide({
    settings: current,
    store,
    budgets,
    clock,
    supervise,
    random,
    log,
    privacy,
    redact: redactor.text,
    metrics,
    accept: accepting.accept,
    calls,
    scheduled: works,
    tracing,
    diagnose: () => diagnose(),
  });
  cleanup.defer(service.end);

  const connect = createDestinations(clock.now);
  const plainHooks = laneHooks({ ...watchers, now: clock.now });
  const attemptHooks = tracing?.attempts(plainHooks) ?? plainHooks;
  const dispatcher = createDispatcher(works ? settings.routes : [], {
    ...lanes,
    clock,
    random,
    connect: (to) => redactAnswers(connect(to), redactor),
    hooks: attemptHooks,
  });
  if (works) store.onDue(dispatcher);

  const proxy = createProxy(proxiedSources(settings), {
    connect: (to, keep) => createUrlDestination(to, clock.now, { allowPrivate: to.allowPrivate }, keep),
    clock,
    redact: (outcome, outgoing) => redactAnswer(outcome, outgoing, redactor),
    accept: accepting.accept,
    settle: store.settleExchange,
    hooks: attemptHooks,
  });
  cleanup.defer(proxy.close);

  const address = clientAddress(settings.server.trustProxy);
  const sourceNotes = createSourceNotes({ store, now: clock.now });
  const receiver = createReceiver({
    sources: inboundSources(settings),
    accepting: {
      event: (event) => {
        if (event.format !== undefined) {
          const { phoneNumberId, wabaId } = event.envelope.data;
          sourceNotes.event(event.source, phoneNumberId ?? wabaId, event.account);
          return accepting.register(event).then(() => accepting.accept(event));
        }
        return event.request === undefined ? accepting.accept(event) : accepting.name(event).then((one) => accepting.accept(one));
      },
      quarantine(body) {
        sourceNotes.event(body.source, body.number, "");
        return accepting.quarantine(body);
      },
      proxy: async (event) => proxy.exchange(await accepting.name(event)),
    },
    now: clock.now,
    address,
    limits: settings.server,
    hooks: receiverHooks({
      ...watchers,
      refused: service.refused,
      handshake: sourceNotes.handshake,
      acknowledged: (tookMs) => store.noteAcknowledged(tookMs, clock.now()),
    }),
    ...(tracing === null ? {} : { arrived: tracing.arrived }),
  });
  const listening = createListening({ store, clock, retention: () => settings.retention.events });

  /** Of the routes of the settings. */
  async function breakers(): Promise<ReadonlyMap<string, BreakerView>> {
    const stored = await storedBreakers(settings.routes, store.notesOf, clock.now());
    const own = [...dispatcher.states()].map(([name, { breaker, failing, pausedUntil, openUntil }]) => {
      return [name, { state: breaker, pausedUntil, openUntil, failingSince: failing?.since ?? null, failing }] as const;
    });
    return new Map([...stored, ...own]);
  }

  const countBacklog = createCount(clock.now, store.browse.backlog, []);
  const readGauges = createGaugeReader({
    now: clock.now,
    backlog: countBacklog,
    lanes: dispatcher.states,
    breakers,
    limiters: service.limiters,
    listeners: listening.lags,
    attention: async () => (await diagnose()).attention,
    inFlight: receiver.inFlight,
    storing: health.storing,
  });

  const inEffect = perSettings(current, (now): Settings => ({ ...now, ...keptAfterReload(initial, now) }));
  const printed = perSettings(inEffect, async (now) => {
    // Loaded on demand: few relays ever get this request.
    const { printableSettings } = await import("../config/print.ts");
    return printableSettings(now);
  });
  // By the clock of this machine, as the times of its files are.
  const reloading = createReloading({
    initial,
    current,
    apply,
    lastUse: untraced.lastUse,
    now: given?.now ?? systemClock.now,
    log,
    metrics,
  });

  const diagnose = createDiagnosis({
    startedAt: instance.startedAt,
    now: clock.now,
    supervise: dispatch ? supervise : null,
    settings: current,
    backlog: countBacklog,
    quarantine: createCount(clock.now, store.browse.quarantine, noQuarantine),
    lanes: dispatcher.states,
    breakers,
    alarms: async () => (store.isShared ? inForce(await store.alarms()) : service.alarms()),
    // A console asks every second.
    database: createCount<DatabaseFacts | null>(clock.now, database, null, { least: 10_000, most: 10_000, times: 1 }),
    stops: service.stops,
    unreachable: async () =>
      (await store.lastPasses()).flatMap(({ account, unreachableSince: since }) => (since === null ? [] : [{ account, since }])),
    storeFailure: () => health.report().reason,
    reload: reloading.last,
  });

  let backups: Supervised | undefined;

  function* apply(next: Settings): Steps<void> {
    // First, so that every secret is known before it can appear in a text.
    yield* redactor.reload(next);
    settings = next;
    rules.reload(next);
    receiver.reload(inboundSources(next));
    proxy.reload(proxiedSources(next));
    dispatcher.reload(works ? next.routes : []);
    service.reload(next);
    backups?.wake();
    const { server } = keptAfterReload(initial, next);
    web.renewTls(server.tls);
    if (web !== controlWeb) controlWeb.renewTls(server.control?.tls);
    tokens = createTokens(next.control.tokens);
  }

  let tokens = createTokens(settings.control.tokens);
  /** For a load balancer or a command that was given the wrong process. */
  const notHere = receives
    ? null
    : "no such page: this process has the role work, and processes with the role receive serve webhooks and /v1";
  const webServer = (address: ListenAddress, webhooks: WebhookHandler | null, missing: string | null): WebServer => {
    const web = createWebServer(
      { ...address, requestTimeout: initial.server.requestTimeout },
      {
        webhooks: webhooks ?? (() => false),
        failed: (error, requestId) => log.error({ err: error, requestId }, "a request failed"),
        missing: notHere ?? missing ?? undefined,
      },
    );
    web.http.addHook("onResponse", apiHook(metrics));
    return web;
  };
  const { control: controlAddress } = initial.server;
  const web = webServer(
    initial.server,
    receives ? receiver.handle : null,
    controlAddress === undefined ? null : "no such page: the control API and the metrics have their own port (server.control)",
  );
  const controlWeb =
    controlAddress === undefined
      ? web
      : webServer(controlAddress, null, "no such page: this is server.control; webhooks are at server.port");
  const webServers = new Set([controlWeb, web]);
  const { http } = controlWeb;
  web.server.on("connection", arrivals.opened);
  const noToken = () => async () => {};
  const readiness = () => ({
    ...health.report(),
    alarms: service.alarms().map(alarmView),
    stops: service.stops(),
    settings: reloading.status(),
  });
  addEndpoints(http, noToken, createProbeHandlers(instance, readiness));
  addMetricsRoute(http, { contentType: metrics.contentType, text: async () => metrics.text(await readGauges()) });
  if (web !== controlWeb) {
    const shortly = () => {
      const { ready, draining } = health.report();
      return { ready, draining };
    };
    addEndpoints(web.http, noToken, createProbeHandlers(instance, shortly));
  }
  if (role !== "work") {
    addConsoleRoutes(http);
    const overview = createOverview({
      relay: { version: instance.version, instance: instance.instance, storage: settings.storage.driver, startedAt: instance.startedAt },
      now: clock.now,
      settings: current,
      diagnose,
      lanes: dispatcher.states,
      hasOtherWorkers: async () =>
        (await processes()).some(({ id, role: other }) => id !== instance.instance && other !== "receive" && other !== "command"),
      history: store.browse.history,
      handshakes: store.browse.handshakes,
    });
    addControlRoutes(http, {
      sessions: createSessions({
        tokens: () => tokens,
        claims: store,
        now: clock.now,
        nonce: () => randomBytes(16).toString("base64url"),
      }),
      tokens: () => tokens,
      revealed: revealedHook(watchers),
      guess: createGuesses(clock.now, (token, result) => metrics.guesses.inc({ token, result })),
      badToken: badTokenHook({ ...watchers, now: clock.now, address, limit: () => settings.control.badTokenLimit }),
      sending: service.sending,
      reconcile: service.reconcile,
      explain: createExplaining({ read: store.read, now: clock.now, breakers }),
      audit: createAuditing({
        inspecting: store.inspecting,
        now: clock.now,
        isRunning: dispatch,
        sources: () => knownSources(settings, store.read),
      }),
      listening: listening.port,
      overview,
      history: { now: clock.now, series: store.inspecting.series, quality: store.inspecting.quality },
      live: createLive({ read: store.browse, onStored: store.onStored, overview: overview.read, clock, slice: listening.slice }),
      control: createControlPort({
        store,
        now: clock.now,
        settings: current,
        breakers,
        dispatcher,
        registered: service.registered,
        handshake: createHandshakes({
          store,
          settings: current,
          now: clock.now,
          challenge: () => randomInt(1e9, 1e14),
          redact: redactor.text,
        }),
        checkSource: createGraphChecks({ settings: current, redact: redactor.text }),
        resumeAccount: service.resumeAccount,
        stopping: () => health.report().draining,
        release: accepting.release,
      }),
      process: {
        instance: () => viewInstance(instance, role, initial),
        async settings() {
          const shown = await printed();
          return { loadedAt: reloading.last().loadedAt, file, settings: shown };
        },
        listeners: listening.list,
        sources: async () => viewSources(settings, await store.read.sourceNotes()),
        secretUses: async () => secretUsage(placedSecrets(settings), await store.read.secretUses()),
        reload: () => (reread === undefined ? null : reloading.reload(reread, "api")),
        lastReload: reloading.last,
      },
    });
  }

  if (works && settings.storage.driver === "sqlite") {
    const { startBackups } = await import("./backups.ts");
    backups = startBackups({ settings: current, path: settings.storage.path, clock, supervise, log, metrics: metrics.backup });
  }
  if (works) startUpkeep({ settings: current, store, backlog: countBacklog, clock, supervise, health, metrics });

  /** All at once, because they have the same time for what is in flight. */
  cleanup.defer(async () => {
    const cancel = clock.after(shutdownTimeout, () => {
      // Senders that still wait get an answer before their connections are closed.
      void proxy.close().finally(() =>
        setImmediate(() => {
          for (const { server } of webServers) server.closeAllConnections();
        }),
      );
    });
    try {
      await Promise.all([
        endTasks(),
        ...[...webServers].map((each) => each.close()),
        service.close(shutdownTimeout),
        dispatcher.close(shutdownTimeout),
      ]);
    } finally {
      cancel();
    }
  });

  return {
    http,
    server: web.server,
    async listen() {
      await service.start();
      if (works) await endLeftExchanges(store, clock.now());
      // The public port last: whoever finds it ready finds the control API too.
      const control = web === controlWeb ? null : await controlWeb.listen();
      const address = await web.listen();
      log.info(
        {
          host: address.address,
          port: address.port,
          instance: instance.instance,
          version: instance.version,
          ...(control === null ? {} : { control: { host: control.address, port: control.port } }),
          ...(role === "both" ? {} : { role }),
          store: storeName(settings.storage),
          sources: Object.keys(settings.sources),
          routes: settings.routes.map(({ name }) => name),
        },
        "listening",
      );
      return address;
    },
    reload(next) {
      const given = next === undefined ? reread : () => ({ settings: next, overridden: [] });
      if (given === undefined) throw new Error("this relay has no settings file to read again");
      return reloading.reload(given, "signal");
    },
    async close() {
      log.info("stopping");
      health.drain();
      receiver.drain();
      await reloading.close();
      // Clients that wait for an audit get its end at once.
      void store.inspecting.close();
      await cleanup.run();
    },
    crash(error) {
      log.fatal({ err: error }, "a fault of the relay ends this process");
      return stream.end();
    },
  };
}

/** Null without an endpoint: then nothing of OpenTelemetry is loaded. */
async function openTracing(settings: Settings["traces"], log: Logger, privacy: Privacy): Promise<Tracing | null> {
  const { endpoint = "" } = settings;
  if (endpoint === "") return null;
  const { createTracing } = await import("./tracing.ts");
  return createTracing({ settings: { ...settings, endpoint }, version: relayVersion(), log, privacy });
}
