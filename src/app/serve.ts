import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Settings } from "../config/schema.ts";
import { addEndpoints } from "../control/endpoint.ts";
import { addMetricsRoute, createProbeHandlers } from "../control/probes.ts";
import { inForce } from "../inspect/alarms.ts";
import { routeFacts } from "../inspect/attention.ts";
import { answerOr, createCount, untilFailed } from "../inspect/count.ts";
import { createDiagnosis, type Diagnosis } from "../inspect/diagnosis.ts";
import { createListening, type Listening } from "../inspect/listening.ts";
import type { ReloadView } from "../model/answers/relay.ts";
import { systemClock } from "../model/clock.ts";
import type { DatabaseFacts } from "../model/database.ts";
import type { Gauges } from "../observe/gauges.ts";
import { alarmView } from "../observe/health.ts";
import { clientAddress } from "../receive/client-address.ts";
import { createReceiver, type Receiver } from "../receive/receiver.ts";
import { noQuarantine } from "../store/port.ts";
import { createIntake, type Intake } from "./accept.ts";
import { addRelayRoutes } from "./control.ts";
import type { Delivering } from "./deliver.ts";
import { storePlace } from "./engine.ts";
import { receiverHooks } from "./hooks.ts";
import { createReloading, type Reloading } from "./reload.ts";
import { inboundSources } from "./rules.ts";
import type { Service } from "./service.ts";
import type { Stored } from "./store.ts";
import { endLeftExchanges } from "./upkeep.ts";
import { createWebServers } from "./web-server.ts";

type Parts = Stored & Delivering & { readonly service: Service };

/**
 * The last phase: webhooks, the control API, and the ports of both. Nothing listens until `listen`.
 */
export function serve(parts: Parts) {
  const {
    run,
    live,
    settings,
    instance,
    redactor,
    log,
    metrics,
    health,
    store,
    clock,
    arrivals,
    accepting,
    service,
    proxy,
  } = parts;
  const { role, cleanup, reread } = run;
  const { initial } = live;
  const address = clientAddress(initial.server.trustProxy);
  const intake = createIntake({ ...parts, exchange: proxy.exchange });
  const receiver = createRelayReceiver(parts, intake, address);
  const listening = createListening({ store, clock, retention: () => settings().retention.events });
  const reloading = createReloading({
    ...live,
    file: run.file,
    *apply(next) {
      // First, so that every secret is known before it can appear in a text.
      yield* redactor.reload(next);
      live.apply(next);
    },
    lastUse: accepting.lastUse,
    // By the clock of this machine, as the times of its files are.
    now: (run.clock ?? systemClock).now,
    log,
    metrics,
  });
  const diagnose = createRelayDiagnosis(parts, reloading);

  const { web, controlWeb, all } = createWebServers(
    parts,
    role === "work" ? null : receiver.handle,
  );
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
    stops: service.stops().map((stop) => ({ ...stop, until: new Date(stop.until).toISOString() })),
    settings: reloading.status(),
  });
  addEndpoints(controlWeb.http, noToken, createProbeHandlers(instance, readiness));
  const text = async () =>
    metrics.text(await readGauges(parts, diagnose, listening, receiver.inFlight()));
  addMetricsRoute(controlWeb.http, { contentType: metrics.contentType, text });
  if (web !== controlWeb) {
    const shortly = () => {
      const { ready, draining } = health.report();
      return { ready, draining };
    };
    addEndpoints(web.http, noToken, createProbeHandlers(instance, shortly));
  }
  if (role !== "work")
    addRelayRoutes(controlWeb.http, {
      ...parts,
      intake,
      diagnose,
      listening,
      reloading,
      address,
      role,
    });

  return {
    http: controlWeb.http,
    server: web.server,
    async listen(): Promise<AddressInfo> {
      service.start(diagnose);
      if (run.works) await endLeftExchanges(store, clock.now());
      // The public port last: whoever finds it ready finds the control API too.
      const control = web === controlWeb ? null : await controlWeb.listen();
      const address = await web.listen();
      const { sources, routes } = settings();
      log.info(
        {
          host: address.address,
          port: address.port,
          instance: instance.instance,
          version: instance.version,
          ...(control === null ? {} : { control: { host: control.address, port: control.port } }),
          ...(role === "both" ? {} : { role }),
          store: storePlace(initial.storage),
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
      receiver.end();
      await Promise.all([...all].map((each) => each.drain()));
      receiver.drain();
      await reloading.close();
      // Clients that wait for an audit get its end at once.
      void store.inspecting.close();
    },
  };
}

function createRelayReceiver(
  parts: Parts,
  intake: Intake,
  address: (request: IncomingMessage) => string,
): Receiver {
  const { live, tracing, clock, service } = parts;
  const receiver = createReceiver({
    sources: inboundSources(live.initial),
    accepting: intake,
    now: clock.now,
    address,
    limits: live.initial.server,
    hooks: receiverHooks({ ...parts, refused: service.refused, handshake: intake.handshake }),
    ...(tracing === null ? {} : { traced: tracing.traced }),
  });
  live.follow((next) => receiver.reload(inboundSources(next)));
  return receiver;
}

function createRelayDiagnosis(parts: Parts, reloading: Reloading): () => Promise<Diagnosis> {
  const {
    settings,
    instance,
    health,
    store,
    clock,
    backlog,
    database,
    service,
    dispatcher,
    breakers,
    backupFailure,
  } = parts;
  return createDiagnosis({
    startedAt: instance.startedAt,
    now: clock.now,
    settings,
    backlog,
    quarantine: createCount(
      clock.now,
      () => untilFailed(store.browse.quarantine(), health.failure),
      noQuarantine,
    ),
    lanes: dispatcher.states,
    breakers,
    alarms: async () => inForce(await store.alarms()),
    // A console asks every second.
    database: createCount<DatabaseFacts | null>(
      clock.now,
      () => untilFailed(database(), health.failure),
      null,
      { least: 10_000, most: 10_000, times: 1 },
    ),
    stops: service.stops,
    unreachable: async () =>
      (await store.lastPasses()).flatMap(({ account, unreachableSince: since }) =>
        since === null ? [] : [{ account, since }],
      ),
    storeFailure: health.failure,
    backupFailure,
    reload: reloading.last,
  });
}

/** Also of routes that have a backlog but are not in the settings. */
async function readGauges(
  { settings, clock, health, service, dispatcher }: Parts,
  diagnose: () => Promise<Diagnosis>,
  listening: Listening,
  requestsInFlight: number,
): Promise<Gauges> {
  const [{ facts, backlog, attention }, listeners] = await Promise.all([
    diagnose(),
    answerOr(listening.lags, []),
  ]);
  const known = new Set(facts.routes.map(({ route }) => route));
  const others = backlog
    .filter(({ route }) => !known.has(route))
    .map((entry) => routeFacts(entry.route, entry));
  const lanes = dispatcher.states();
  const routes = [...facts.routes, ...others].map(({ breaker, ...of }) => {
    const { stopped = null, inFlight = 0 } = lanes.get(of.route) ?? {};
    return {
      ...of,
      inFlight,
      stopped: (stopped ?? breaker.stop) !== null,
      breaker: breaker.state,
      pausedUntil: breaker.pausedUntil,
    };
  });
  const sources = Object.entries(settings().sources).map(([source, { kind, ...of }]) => ({
    source,
    format: "format" in of ? of.format : kind,
  }));
  const accounts = service.limiters();
  return {
    attention,
    routes,
    accounts,
    sources,
    listeners,
    requestsInFlight,
    storing: health.storing(),
    now: clock.now(),
  };
}
