import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Settings } from "../config/schema.ts";
import { addEndpoints } from "../control/endpoint.ts";
import { addMetricsRoute, createProbeHandlers } from "../control/probes.ts";
import type { LaneState } from "../deliver/lane.ts";
import { answerOr, createCount } from "../inspect/count.ts";
import { createDiagnosis, type Diagnosis } from "../inspect/diagnosis.ts";
import { createListening } from "../inspect/listening.ts";
import type { ReloadView } from "../model/answers.ts";
import type { BreakerView } from "../model/breaker.ts";
import type { Clock } from "../model/clock.ts";
import type { DatabaseFacts } from "../model/database.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Attention } from "../model/overview.ts";
import { systemClock } from "../model/system-clock.ts";
import type { Gauges } from "../observe/gauges.ts";
import { alarmView } from "../observe/health.ts";
import { clientAddress } from "../receive/client-address.ts";
import { createReceiver, type Receiver } from "../receive/receiver.ts";
import type { LimiterState } from "../service/limits/limiter.ts";
import { noQuarantine, type RouteBacklog } from "../store/views.ts";
import { createSourceNotes } from "./accept.ts";
import { inForce } from "./alarms.ts";
import type { Cleanup } from "./cleanup.ts";
import { addRelayRoutes, type ControlRoutesParts } from "./control-routes.ts";
import type { Delivering } from "./deliver.ts";
import type { Role } from "./engine.ts";
import { receiverHooks } from "./hooks.ts";
import type { Observed } from "./observe.ts";
import { storeName } from "./open-store.ts";
import { createReloading, type Reloading } from "./reload.ts";
import { inboundSources } from "./rules.ts";
import type { Service } from "./service.ts";
import type { Stored } from "./store.ts";
import { endLeftExchanges } from "./upkeep.ts";
import { createWebServers } from "./web-server.ts";

interface ServeOptions extends Pick<ControlRoutesParts, "dispatch" | "file" | "reread"> {
  readonly role: Role;
  readonly works: boolean;
  /** Default: the system's. */
  readonly clock: Clock | undefined;
}

type Parts = Observed & Stored & Delivering & { readonly service: Service };

/** The last phase: webhooks, the control API, and the ports of both. Nothing listens until `listen`. */
export function serve(parts: Parts, { role, works, dispatch, file, reread, clock: given }: ServeOptions, cleanup: Cleanup) {
  const { live, instance, redactor, log, metrics, health, store, clock, arrivals, accepting, service, proxy } = parts;
  const { initial } = live;
  const address = clientAddress(initial.server.trustProxy);
  const receiver = createRelayReceiver(parts, address);
  const listening = createListening({ store, clock, retention: () => live.current().retention.events });
  const reloading = createReloading({
    ...live,
    *apply(next) {
      // First, so that every secret is known before it can appear in a text.
      yield* redactor.reload(next);
      live.apply(next);
    },
    lastUse: accepting.lastUse,
    // By the clock of this machine, as the times of its files are.
    now: given?.now ?? systemClock.now,
    log,
    metrics,
  });
  const diagnose = createRelayDiagnosis(parts, reloading);
  const readGauges = createGaugeReader({
    ...parts,
    settings: parts.live.current,
    now: clock.now,
    lanes: parts.dispatcher.states,
    limiters: service.limiters,
    listeners: listening.lags,
    attention: async () => (await diagnose()).attention,
    inFlight: receiver.inFlight,
    storing: health.storing,
  });

  const { web, controlWeb, all } = createWebServers(parts, role === "work" ? null : receiver.handle);
  cleanup.together(async () => {
    const cancel = clock.after(initial.server.shutdownTimeout, () => {
      // Senders that still wait get an answer before their connections are closed.
      void proxy.close().finally(() =>
        setImmediate(() => {
          for (const { server } of all) server.closeAllConnections();
        }),
      );
    });
    await Promise.all([...all].map((each) => each.close())).finally(cancel);
  });
  web.server.on("connection", arrivals.opened);

  const noToken = () => async () => {};
  const readiness = () => ({
    ...health.report(),
    alarms: service.alarms().map(alarmView),
    stops: service.stops(),
    settings: reloading.status(),
  });
  addEndpoints(controlWeb.http, noToken, createProbeHandlers(instance, readiness));
  addMetricsRoute(controlWeb.http, { contentType: metrics.contentType, text: async () => metrics.text(await readGauges()) });
  if (web !== controlWeb) {
    const shortly = () => {
      const { ready, draining } = health.report();
      return { ready, draining };
    };
    addEndpoints(web.http, noToken, createProbeHandlers(instance, shortly));
  }
  if (role !== "work") addRelayRoutes(controlWeb.http, { ...parts, diagnose, listening, reloading, address, role, dispatch, file, reread });

  return {
    http: controlWeb.http,
    server: web.server,
    async listen(): Promise<AddressInfo> {
      service.start(diagnose);
      if (works) await endLeftExchanges(store, clock.now());
      // The public port last: whoever finds it ready finds the control API too.
      const control = web === controlWeb ? null : await controlWeb.listen();
      const address = await web.listen();
      const { sources, routes } = live.current();
      log.info(
        {
          host: address.address,
          port: address.port,
          instance: instance.instance,
          version: instance.version,
          ...(control === null ? {} : { control: { host: control.address, port: control.port } }),
          ...(role === "both" ? {} : { role }),
          store: storeName(initial.storage),
          sources: Object.keys(sources),
          routes: routes.map(({ name }) => name),
        },
        "listening",
      );
      return address;
    },
    reload(next?: Settings): Promise<ReloadView> {
      const read = next === undefined ? reread : () => ({ settings: next, overridden: [] });
      if (read === undefined) throw new Error("this relay has no settings file to read again");
      return reloading.reload(read, "signal");
    },
    /** Accepts nothing more. */
    async drain(): Promise<void> {
      health.drain();
      receiver.drain();
      await reloading.close();
      // Clients that wait for an audit get its end at once.
      void store.inspecting.close();
    },
  };
}

function createRelayReceiver(parts: Parts, address: (request: IncomingMessage) => string): Receiver {
  const { live, tracing, store, clock, accepting, service, proxy } = parts;
  const sourceNotes = createSourceNotes(store, clock.now);
  const receiver = createReceiver({
    sources: inboundSources(live.initial),
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
    limits: live.initial.server,
    hooks: receiverHooks(parts, {
      refused: service.refused,
      handshake: sourceNotes.handshake,
      acknowledged: (tookMs) => store.noteAcknowledged(tookMs, clock.now()),
    }),
    ...(tracing === null ? {} : { traced: tracing.traced }),
  });
  live.follow((next) => receiver.reload(inboundSources(next)));
  return receiver;
}

function createRelayDiagnosis(parts: Parts, reloading: Reloading): () => Promise<Diagnosis> {
  const { live, instance, health, store, clock, backlog, database, service, dispatcher, breakers } = parts;
  return createDiagnosis({
    startedAt: instance.startedAt,
    now: clock.now,
    settings: live.current,
    backlog,
    quarantine: createCount(clock.now, store.browse.quarantine, noQuarantine),
    lanes: dispatcher.states,
    breakers,
    alarms: async () => inForce(await store.alarms()),
    // A console asks every second.
    database: createCount<DatabaseFacts | null>(clock.now, database, null, { least: 10_000, most: 10_000, times: 1 }),
    stops: service.stops,
    unreachable: async () =>
      (await store.lastPasses()).flatMap(({ account, unreachableSince: since }) => (since === null ? [] : [{ account, since }])),
    storeFailure: () => health.report().reason,
    reload: reloading.last,
  });
}

interface GaugeParts {
  readonly settings: () => Pick<Settings, "sources">;
  readonly now: () => number;
  readonly backlog: () => MaybePromise<readonly RouteBacklog[]>;
  readonly lanes: () => ReadonlyMap<string, LaneState>;
  readonly breakers: () => MaybePromise<ReadonlyMap<string, BreakerView>>;
  readonly limiters: () => ReadonlyMap<string, LimiterState>;
  readonly listeners: () => MaybePromise<Gauges["listeners"]>;
  readonly attention: () => MaybePromise<readonly Attention[]>;
  readonly inFlight: () => number;
  readonly storing: () => boolean;
}

/** Reads the gauges, including those of routes that have a backlog but are not in the settings. */
export function createGaugeReader(parts: GaugeParts): () => Promise<Gauges> {
  return async () => {
    const counted = await parts.backlog();
    const [attention, listeners, breakers] = await Promise.all([
      parts.attention(),
      answerOr(parts.listeners, []),
      answerOr(parts.breakers, new Map<string, BreakerView>()),
    ]);
    const backlog = new Map(counted.map((entry) => [entry.route, entry]));
    const lanes = parts.lanes();
    const names = new Set([...lanes.keys(), ...backlog.keys(), ...breakers.keys()]);
    const routes = [...names].map((route) => {
      const entry = backlog.get(route);
      const lane = lanes.get(route);
      const breaker = breakers.get(route);
      return {
        waiting: 0,
        held: 0,
        dead: 0,
        oldestDueAt: null,
        inFlight: 0,
        ...entry,
        ...lane,
        route,
        stopped: (lane?.stopped ?? breaker?.stop ?? null) !== null,
        breaker: breaker?.state ?? lane?.breaker ?? ("closed" as const),
        pausedUntil: breaker?.pausedUntil ?? lane?.pausedUntil ?? null,
      };
    });
    const sources = Object.entries(parts.settings().sources).map(([source, { kind, ...of }]) => ({
      source,
      format: "format" in of ? of.format : kind,
    }));
    const accounts = parts.limiters();
    return {
      attention,
      routes,
      accounts,
      sources,
      listeners,
      requestsInFlight: parts.inFlight(),
      storing: parts.storing(),
      now: parts.now(),
    };
  };
}
