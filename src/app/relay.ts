import { randomInt } from "node:crypto";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { changedParts, type Settings } from "../config/schema.ts";
import { type Authorize, createAuthorize } from "../control/auth.ts";
import { addOperateRoutes } from "../control/operate.ts";
import { addControlRoutes } from "../control/routes.ts";
import { createDestinations, redactAnswer, redactAnswers } from "../deliver/destinations/create.ts";
import { createUrlDestination } from "../deliver/destinations/url.ts";
import { createDispatcher } from "../deliver/dispatcher.ts";
import { createProxy, stoppedDuring } from "../deliver/proxy.ts";
import type { Clock } from "../model/clock.ts";
import type { ReceivedEvent } from "../model/event.ts";
import { createRedactor } from "../model/redact.ts";
import type { BreakerView } from "../model/shared-limits.ts";
import { createHealth } from "../observe/health.ts";
import { createLogger, createPrivacy, type LogStream } from "../observe/logger.ts";
import { createMetrics } from "../observe/metrics.ts";
import { createArrivals } from "../receive/arrivals.ts";
import { clientAddress } from "../receive/client-address.ts";
import { createReceiver } from "../receive/receiver.ts";
import { secretUsage } from "../receive/signature/usage.ts";
import { StoreUnavailable } from "../store/port.ts";
import type { AcceptOutcome } from "../store/rules.ts";
import { createAuditing } from "./auditing.ts";
import { createControlPort } from "./control.ts";
import { checkRole, type Role } from "./engine.ts";
import { createExplaining } from "./explaining.ts";
import { createGaugeReader } from "./gauges.ts";
import { badTokenHook, faultOf, laneHooks, receiverHooks, storeHooks } from "./hooks.ts";
import { createListening } from "./listening.ts";
import { openStore, storeName } from "./open-store.ts";
import { startPlanning } from "./planning.ts";
import { startRelayUpkeep } from "./relay-upkeep.ts";
import { createRules } from "./rules.ts";
import { createServiceSide } from "./service.ts";
import { inboundSources, proxiedSources } from "./sources.ts";
import { createWebServer } from "./web-server.ts";

export interface RelayOptions {
  readonly settings: Settings;
  readonly log: LogStream;
  /** Not given: the machine's, or with a store that processes share, that of the store. */
  readonly clock?: Clock;
  readonly random?: () => number;
  /** Not given: `both`. */
  readonly role?: Role;
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
  /** Logs an error that nothing caught; resolves when the line is out. The process cannot go on after it. */
  crash(error: unknown): Promise<void>;
}

/**
 * The composition root: the only place where the parts are made and joined. Throws `StoreRefused` when the store cannot
 * be had. Nothing listens until `listen`.
 */
export async function createRelay({
  settings: initial,
  log: stream,
  clock: given,
  random = defaultRandom,
  role = "both",
  dispatch = true,
  calls = dispatch,
}: RelayOptions): Promise<Relay> {
  checkRole(role, initial.storage);
  const receives = role !== "work";
  const works = dispatch && role !== "receive";
  let settings = initial;
  const redactor = createRedactor(settings);
  const log = createLogger(settings.log, stream, redactor);
  const privacy = createPrivacy(settings.log.pii, redactor);
  const health = createHealth();
  const arrivals = createArrivals();
  const rules = createRules(settings, (error, { event: kind, account, source }) => {
    metrics.setAside.inc({ stage: "plan" });
    log.error(
      { kind: privacy.id("kind", kind), account, source, stage: "plan", ...faultOf(error) },
      "planning an event failed; it is set aside and goes to no route",
    );
  });

  // First, because everything else reports to them; what they read is made by then.
  const metrics = createMetrics(() => readGauges());
  const watchers = { log, privacy, metrics: () => metrics };
  const { store, clock, backlog, lanes, caps, breakersOf, endPause } = await openStore(settings.storage, {
    role: dispatch ? role : "command",
    rules,
    hooks: storeHooks({ ...watchers, health, arriving: arrivals.expected }),
    clock: given,
  });

  const connect = createDestinations(clock.now);
  const attemptHooks = laneHooks({ ...watchers, now: clock.now });
  const dispatcher = createDispatcher(works ? settings.routes : [], {
    ...lanes,
    clock,
    random,
    connect: (to) => redactAnswers(connect(to), redactor),
    hooks: attemptHooks,
  });
  if (works) store.onDue(dispatcher);

  // By `then`, as below it: each async function that an event passes through costs as much as counting it thrice.
  function accept(event: ReceivedEvent, proxied: string | null = null): Promise<AcceptOutcome> {
    return store.accept(event, proxied).then((outcome) => {
      noteAccepted(event, outcome);
      return outcome;
    });
  }

  function noteAccepted(event: ReceivedEvent, outcome: AcceptOutcome): void {
    const { source, secret, envelope } = event;
    if (outcome.result === "accepted") {
      store.announce(outcome.due);
      service.stored(event);
      if (outcome.disposition !== "accepted") metrics.dispositions.count(source, outcome.disposition);
      if (secret !== null) metrics.proofs.count(source, secret);
    } else if (outcome.conflict) {
      log.warn(
        { event: privacy.id("event", envelope.id), seq: outcome.seq, source },
        "a known event id came with other bytes; kept the first",
      );
    }
  }

  /** The same signed bytes are one event for a while, whichever process gets them. */
  async function named(event: ReceivedEvent): Promise<ReceivedEvent> {
    const source = settings.sources[event.source];
    const { request, envelope } = event;
    if (request === undefined || source?.kind !== "automation-request" || source.dedupe === 0) return event;
    const id = await store.nameRequest(request, envelope.id, event.receivedAt, source.dedupe);
    return id === envelope.id ? event : { ...event, envelope: { ...envelope, id } };
  }

  const proxy = createProxy(proxiedSources(settings), {
    connect: (to, keep) => createUrlDestination(to, clock.now, { allowPrivate: to.allowPrivate }, keep),
    clock,
    redact: (outcome, outgoing) => redactAnswer(outcome, outgoing, redactor),
    accept,
    settle: store.settleExchange,
    hooks: attemptHooks,
  });

  const address = clientAddress(settings.server.trustProxy);
  const receiver = createReceiver({
    sources: inboundSources(settings),
    accepting: {
      event: (event) => (event.request === undefined ? accept(event) : named(event).then((one) => accept(one))),
      async quarantine(body) {
        await store.quarantine(body);
        metrics.dispositions.count(body.source, "quarantined");
      },
      proxy: async (event) => proxy.exchange(await named(event)),
    },
    now: clock.now,
    address,
    limits: settings.server,
    hooks: receiverHooks({ ...watchers, refused: (source) => service.refused(source) }),
  });

  const service = createServiceSide({
    settings: () => settings,
    store,
    caps,
    clock,
    random,
    log,
    privacy,
    redact: redactor.text,
    metrics: () => metrics,
    accept,
    calls,
    scheduled: works,
  });

  const listening = createListening({ store, clock, retention: () => settings.retention.events });

  const readGauges = createGaugeReader({
    now: clock.now,
    backlog: store.read.backlog,
    unplanned: store.read.unplanned,
    lanes: dispatcher.states,
    breakers,
    limiters: service.limiters,
    listeners: listening.lags,
    inFlight: receiver.inFlight,
    storing: health.storing,
  });

  let authorize: Authorize = createAuthorize(settings.control.tokens);
  const web = createWebServer(
    settings.server,
    (request, response) => receives && receiver.handle(request, response),
    (error, requestId) => log.error({ err: error, requestId }, "a request failed"),
    // A load balancer, or a command, that was given the wrong process.
    receives ? undefined : "no such page: this process has the role work, and webhooks and /v1 are at those that receive",
  );
  const { http } = web;
  web.server.on("connection", arrivals.opened);
  addOperateRoutes(http, { health: () => ({ ...health.report(), alarms: service.alarms(), stops: service.stops() }), metrics });
  if (receives) {
    addControlRoutes(http, {
      authorize: () => authorize,
      badToken: badTokenHook({ ...watchers, now: clock.now, address, limit: () => settings.control.badTokenLimit }),
      sending: service.sending,
      reconcile: service.reconcile,
      explain: createExplaining({ read: store.read, now: clock.now, breakers }),
      audit: createAuditing({ inspecting: store.inspecting, now: clock.now, isRunning: dispatch }),
      listening: listening.port,
      control: createControlPort({
        store,
        now: clock.now,
        known: () => ({ routes: settings.routes.map(({ name }) => name), accounts: Object.keys(settings.accounts) }),
        breakers,
        resume,
        registered: service.registered,
        resumeAccount: service.resumeAccount,
        stopping: () => health.report().draining,
        fieldsOf(name) {
          const source = Object.hasOwn(settings.sources, name) ? settings.sources[name] : undefined;
          return source?.kind === "events" ? source : null;
        },
        async release(event) {
          const outcome = await store.release(event);
          if (outcome !== null) {
            noteAccepted(event, outcome);
            metrics.dispositions.count(event.source, "released");
          }
          return outcome;
        },
      }),
      secretUses: async () => secretUsage(settings.sources, await store.read.proofs()),
    });
  }

  /** By route of the settings. */
  async function breakers(): Promise<ReadonlyMap<string, BreakerView>> {
    const stored = await breakersOf(settings.routes);
    if (store.isShared) return stored;
    const lanes = [...dispatcher.states()].map(([name, { breaker, pausedUntil }]) => [name, { state: breaker, pausedUntil }] as const);
    return new Map([...stored, ...lanes]);
  }

  /** Starts the destination of a route again; false: it was neither stopped nor paused. Null: no such route. */
  async function resume(name: string): Promise<boolean | null> {
    const route = settings.routes.find((each) => each.name === name);
    if (route === undefined) return null;
    // First here, in the order in which a file is written: what pauses after this is kept.
    const endedHere = dispatcher.endPause(name);
    const ended = await endPause(route);
    return (await store.resume(name)) || ended || endedHere;
  }

  const endPlanning =
    works && backlog !== undefined ? startPlanning({ backlog, announce: store.announce, metrics, clock, log, privacy }) : () => {};
  const endUpkeep = works ? startRelayUpkeep({ settings: () => settings, store, clock, health, metrics, log }) : () => {};

  /** An exchange that a crash cut short was answered by nobody: the step has gone its error exit. */
  async function endLeftExchanges(): Promise<void> {
    try {
      await store.endLeftExchanges(clock.now(), stoppedDuring);
    } catch (error) {
      // One that is shared may be away when a process starts; upkeep does it later.
      if (!(store.isShared && error instanceof StoreUnavailable)) throw error;
    }
  }

  return {
    http,
    server: web.server,
    async listen() {
      await service.start();
      if (works) await endLeftExchanges();
      const address = await web.listen();
      log.info(
        {
          host: address.address,
          port: address.port,
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
      const fixed = changedParts(settings, next, ["server", "storage", "log"]);
      settings = next;
      // First, so that nothing comes back before its secret is known.
      redactor.reload(next);
      rules.reload(next);
      receiver.reload(inboundSources(next));
      proxy.reload(proxiedSources(next));
      dispatcher.reload(works ? next.routes : []);
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
      const planned = endPlanning();
      const closing = web.close();
      const cancel = clock.after(settings.server.shutdownTimeout, () => {
        // Steps that still wait for an answer are told, before their connections go.
        void proxy.close().finally(() => setImmediate(() => web.server.closeAllConnections()));
      });
      const { shutdownTimeout } = settings.server;
      await Promise.all([closing, service.close(shutdownTimeout), dispatcher.close(shutdownTimeout)]);
      cancel();
      await proxy.close();
      await planned;
      await service.end();
      await store.close();
      log.info("stopped");
      await stream.end();
    },
    crash(error) {
      log.fatal({ err: error }, "a fault of the relay ends this process");
      return stream.end();
    },
  };
}

const defaultRandom = (): number => randomInt(2 ** 32) / 2 ** 32;
