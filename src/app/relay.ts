import { randomInt } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Settings } from "../config/schema.ts";
import { type Authorize, createAuthorize } from "../control/auth.ts";
import { createHttp } from "../control/http.ts";
import { addOperateRoutes } from "../control/operate.ts";
import { addControlRoutes } from "../control/routes.ts";
import { createDestinations } from "../deliver/destinations/create.ts";
import { createUrlDestination } from "../deliver/destinations/url.ts";
import { createDispatcher, type Dispatcher } from "../deliver/dispatcher.ts";
import type { Clock } from "../event/clock.ts";
import { isProxyRoute } from "../event/proxy-route.ts";
import type { ReceivedEvent } from "../event/received.ts";
import { createHealth } from "../observe/health.ts";
import { createLogger, createPrivacy, type LogStream } from "../observe/logger.ts";
import { createMetrics } from "../observe/metrics.ts";
import { createReceiver } from "../receive/receiver.ts";
import type { AcceptOutcome } from "../store/planned.ts";
import { openSqliteStore } from "../store/sqlite/sqlite-store.ts";
import { sqlitePath } from "../store/sqlite-path.ts";
import { createAuditing } from "./auditing.ts";
import { clientAddress } from "./client-address.ts";
import { createControlPort } from "./control-port.ts";
import { createExplaining } from "./explaining.ts";
import { createGaugeReader } from "./gauges.ts";
import { laneHooks, receiverHooks, storeHooks } from "./hooks.ts";
import { createListening } from "./listening.ts";
import { createProxying, stoppedDuring } from "./proxying.ts";
import { startRelayUpkeep } from "./relay-upkeep.ts";
import { createRules } from "./rules.ts";
import { secretUses } from "./secret-uses.ts";
import { createServiceSide } from "./service-side.ts";
import { inboundSources } from "./sources.ts";
import { systemClock } from "./system-clock.ts";

export interface RelayOptions {
  readonly settings: Settings;
  readonly log: LogStream;
  readonly clock?: Clock;
  readonly random?: () => number;
  /** False: nothing is sent; for a command that only writes into the store. */
  readonly dispatch?: boolean;
  /** Whether the messaging service is called; not given: as `dispatch`. */
  readonly calls?: boolean;
}

export interface Relay {
  /** Every page but the webhooks, without a socket: `inject` asks it. */
  readonly http: FastifyInstance;
  readonly server: Server;
  listen(): Promise<AddressInfo>;
  /** Takes other routes, sources, accounts, tokens and retention; gives the settings that only a restart changes. */
  reload(settings: Settings): readonly string[];
  /** Stops accepting, lets what is in flight finish within `server.shutdownTimeout`, closes the store. */
  close(): Promise<void>;
}

/**
 * The composition root of the embedded engine: the only place where the parts are made and joined.
 * Throws `StoreRefused` when the file cannot be had. Nothing listens until `listen`.
 */
export function createRelay({
  settings: initial,
  log: stream,
  clock = systemClock,
  random = defaultRandom,
  dispatch = true,
  calls = dispatch,
}: RelayOptions): Relay {
  let settings = initial;
  const log = createLogger(settings.log, stream);
  const privacy = createPrivacy(settings.log.pii);
  const health = createHealth();
  const rules = createRules(settings);

  const store = openSqliteStore(sqlitePath(settings.storage), rules, storeHooks({ log, health, metrics: () => metrics }));

  const attemptHooks = laneHooks({ log, privacy, now: clock.now, metrics: () => metrics });
  const dispatcher: Dispatcher = createDispatcher(dispatch ? settings.routes : [], {
    store,
    clock,
    random,
    connect: createDestinations(clock.now),
    hooks: attemptHooks,
  });

  async function accept(event: ReceivedEvent, proxied: string | null = null): Promise<AcceptOutcome> {
    const outcome = await store.accept(event, proxied);
    if (outcome.result === "accepted") {
      dispatcher.offer(outcome.due);
      listening.stored();
      service.stored(event);
      metrics.dispositions.inc({ source: event.source, disposition: outcome.disposition });
      if (event.secret !== null) metrics.proofs.inc({ source: event.source, secret: event.secret });
    } else if (outcome.conflict) {
      log.warn({ event: event.envelope.id, source: event.source }, "a known event id came with other bytes; kept the first");
    }
    return outcome;
  }

  const proxying = createProxying(settings.sources, {
    connect: (to, keep) => createUrlDestination(to, clock.now, { allowPrivate: to.allowPrivate }, keep),
    clock,
    accept: async (event, route) => (await accept(event, route)).seq,
    settle: store.settle,
    attempted: attemptHooks.attempted,
    storeFailed: attemptHooks.storeFailed,
  });

  const receiver = createReceiver({
    sources: inboundSources(settings),
    accepting: {
      event: async (event) => (await accept(event)).result,
      async quarantine(body) {
        await store.quarantine(body);
        metrics.dispositions.inc({ source: body.source, disposition: "quarantined" });
      },
      proxy: proxying.exchange,
    },
    now: clock.now,
    address: clientAddress(settings.server.trustProxy),
    limits: settings.server,
    hooks: receiverHooks({ log, privacy, metrics: () => metrics, refused: (source) => service.refused(source) }),
  });

  const service = createServiceSide({
    settings: () => settings,
    store,
    clock,
    random,
    log,
    metrics: () => metrics,
    accept,
    offer: dispatcher.offer,
    calls,
    scheduled: dispatch,
  });

  const listening = createListening({ store, clock, retention: () => settings.retention.events });

  const metrics = createMetrics(
    createGaugeReader({
      now: clock.now,
      backlog: store.read.backlog,
      lanes: dispatcher.states,
      limiters: service.limiters,
      listeners: listening.lags,
      inFlight: receiver.inFlight,
      storing: health.storing,
    }),
  );

  let authorize: Authorize = createAuthorize(settings.control.tokens);
  const http = createHttp(
    (handler) => {
      const server = createServer(
        {
          requestTimeout: settings.server.requestTimeout,
          headersTimeout: settings.server.requestTimeout,
          connectionsCheckingInterval: 1_000,
          keepAliveTimeout: 65_000,
        },
        (request, response) => {
          if (!receiver.handle(request, response)) handler(request, response);
        },
      );
      return server;
    },
    (error, requestId) => log.error({ err: error, requestId }, "a request failed"),
  );
  addOperateRoutes(http, { health: () => ({ ...health.report(), alarms: service.alarms() }), metrics });
  addControlRoutes(http, {
    authorize: () => authorize,
    sending: service.sending,
    reconcile: service.reconcile,
    explain: createExplaining({ read: store.read, now: clock.now, lanes: dispatch ? dispatcher.states : null }),
    audit: createAuditing({ inspecting: store.inspecting, now: clock.now, isRunning: dispatch }),
    listening: listening.port,
    control: createControlPort({
      store,
      now: clock.now,
      known: () => ({ routes: settings.routes.map(({ name }) => name), accounts: Object.keys(settings.accounts) }),
      offer: dispatcher.offer,
      registered: service.registered,
      wake: dispatcher.wake,
      stopping: () => health.report().draining,
    }),
    secretUses: () => secretUses(settings.sources, store.read.file.proofs()),
  });

  const endUpkeep = dispatch ? startRelayUpkeep({ settings: () => settings, store, clock, health, metrics, log }) : () => {};

  return {
    http,
    server: http.server as Server,
    async listen() {
      await service.start();
      // An exchange that a crash cut short was answered by nobody: the step has gone its error exit.
      // Asked of the store, because its source may be gone from the settings since.
      for (const { route } of store.read.backlog()) {
        if (isProxyRoute(route)) await store.abandon(route, clock.now(), stoppedDuring);
      }
      await http.listen({ host: settings.server.host, port: settings.server.port, backlog: 1024 });
      const address = http.server.address() as AddressInfo;
      log.info(
        {
          host: address.address,
          port: address.port,
          store: sqlitePath(settings.storage),
          sources: Object.keys(settings.sources),
          routes: settings.routes.map(({ name }) => name),
        },
        "listening",
      );
      return address;
    },
    reload(next) {
      const fixed = needRestart(settings, next);
      settings = next;
      rules.reload(next);
      receiver.reload(inboundSources(next));
      proxying.reload(next.sources);
      dispatcher.reload(dispatch ? next.routes : []);
      service.reload(next);
      authorize = createAuthorize(next.control.tokens);
      log.info(
        { sources: Object.keys(next.sources), routes: next.routes.map(({ name }) => name), needRestart: fixed },
        "settings reloaded",
      );
      return fixed;
    },
    async close() {
      log.info("stopping");
      health.drain();
      receiver.drain();
      // Who waits for an audit is told at once that it has ended.
      void store.inspecting.close();
      endUpkeep();
      const server = http.server as Server;
      const closing = http.close();
      const closingIdle = setInterval(() => server.closeIdleConnections(), closeIdleEveryMs);
      const cancel = clock.after(settings.server.shutdownTimeout, () => {
        // Steps that still wait for an answer are told, before their connections go.
        void proxying.close().finally(() => setImmediate(() => server.closeAllConnections()));
      });
      const { shutdownTimeout } = settings.server;
      await Promise.all([closing, service.close(shutdownTimeout), dispatcher.close(shutdownTimeout)]);
      clearInterval(closingIdle);
      cancel();
      await proxying.close();
      await service.end();
      await store.close();
      log.info("stopped");
      await stream.end();
    },
  };
}

/** While stopping: a connection whose last answer went out as kept alive would hold up the end for its whole timeout. */
const closeIdleEveryMs = 50;

const defaultRandom = (): number => randomInt(2 ** 32) / 2 ** 32;

function needRestart(before: Settings, after: Settings): string[] {
  return (["server", "storage", "log"] as const).filter((part) => JSON.stringify(before[part]) !== JSON.stringify(after[part]));
}
