import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { statsSchema } from "../model/answers.ts";
import { toAnswer, type View } from "../model/view.ts";
import { type AuditPort, addAuditRoute } from "./audit.ts";
import { type BadTokenHook, createAllow, type RevealedHook, type Tokens } from "./auth.ts";
import { addDeliveriesRoutes, addRetryRoute, type DeliveriesPort, type RetryPort } from "./deliveries.ts";
import { type Allow, addEndpoint, type Endpoint } from "./endpoint.ts";
import { addEventRoutes, type EventsPort } from "./events.ts";
import { addExplainRoute, type ExplainPort } from "./explain.ts";
import type { Guess } from "./guesses.ts";
import { addHistoryRoutes, type HistoryPort } from "./history.ts";
import { addListenRoutes } from "./listen.ts";
import type { ListenPort } from "./listen-stream.ts";
import { addLiveRoute, type LivePort } from "./live.ts";
import { addTrackedRoutes, type TrackedReading } from "./messages.ts";
import {
  addInstanceRoute,
  addReloadRoutes,
  addResumeRoutes,
  addSecretsRoute,
  type InstancePort,
  type ReloadPort,
  type ResumePort,
  type SecretsPort,
} from "./operate.ts";
import { addOverviewRoute, type OverviewPort } from "./overview.ts";
import { addReconcileRoute, type ReconcilePort } from "./reconcile.ts";
import { addReplayRoute, type ReplayPort } from "./replay.ts";
import { addSearchRoute, type SearchPort } from "./search.ts";
import { addSendingRoutes, type SendingPort } from "./sending.ts";
import { addSessionRoutes, createSessionCheck, type Sessions } from "./session.ts";
import { addSettingsRoutes, type SettingsPort } from "./settings.ts";
import { addTrackRoute, type TrackPort } from "./track.ts";

/** Reads a store without writing, in a relay or beside a running one. */
export interface Reading extends EventsPort, DeliveriesPort, TrackedReading {
  stats(): Promise<View<typeof statsSchema>>;
  readonly search: SearchPort;
}

const stats = {
  method: "GET",
  path: "/v1/stats",
  name: "getStats",
  scope: "read",
  summary: "Sums of events, deliveries and attempts",
  description: "Counts every row, which takes about a second per million events.",
  answers: { 200: { text: "The sums.", schema: statsSchema } },
} as const;

/** The port for everything that reads or writes the store. Views are plain data; times in them are unix ms. */
export interface Control extends Reading, RetryPort, ReplayPort, ResumePort, TrackPort {}

interface ControlParts {
  readonly control: Control;
  readonly sending: SendingPort;
  readonly reconcile: ReconcilePort;
  readonly audit: AuditPort;
  readonly explain: ExplainPort;
  readonly listening: ListenPort;
  readonly overview: OverviewPort;
  readonly history: HistoryPort;
  readonly live: LivePort;
  readonly secretUses: SecretsPort;
  readonly instance: InstancePort;
  readonly reloading: ReloadPort;
  readonly sessions: Sessions;
  readonly tokens: () => Tokens;
  readonly inEffect: SettingsPort;
  readonly badToken: BadTokenHook;
  readonly revealed: RevealedHook;
  readonly guess: Guess;
}

/** The lists and details of `/v1`, and `GET /v1/stats`. */
export function addReadingRoutes(app: FastifyInstance, reading: Reading, allow: Allow): void {
  addEventRoutes(app, reading, allow);
  addDeliveriesRoutes(app, reading, allow);
  addTrackedRoutes(app, reading, allow);
  addSearchRoute(app, (text, wholeOnly) => reading.search(text, wholeOnly), allow);
  addEndpoint(app, allow, stats, async () => toAnswer(statsSchema, await reading.stats()));
}

/** The control API under `/v1`. */
export function addControlRoutes(
  app: FastifyInstance,
  {
    control,
    sending,
    reconcile,
    audit,
    explain,
    listening,
    live,
    overview,
    history,
    secretUses,
    instance,
    reloading,
    sessions,
    tokens,
    inEffect,
    badToken,
    revealed,
    guess,
  }: ControlParts,
): void {
  const sessionOf = createSessionCheck(sessions);
  const allow = createAllow({ tokens, badToken, revealed, guess, sessionOf });
  // First, so that its hook sees every other route.
  addOpenApiRoute(app, listening.version, allow);
  addOverviewRoute(app, overview, allow);
  addHistoryRoutes(app, history, allow);
  addReadingRoutes(app, control, allow);
  addSecretsRoute(app, secretUses, allow);
  addInstanceRoute(app, instance, allow);
  addReloadRoutes(app, reloading, allow);
  addSettingsRoutes(app, inEffect, allow);
  addRetryRoute(app, control, allow);
  addReplayRoute(app, control, allow);
  addResumeRoutes(app, control, allow);
  addTrackRoute(app, control, allow);
  addSendingRoutes(app, sending, allow);
  addAuditRoute(app, audit, allow);
  addExplainRoute(app, explain, allow);
  addReconcileRoute(app, reconcile, allow);
  addListenRoutes(app, listening, allow);
  addSessionRoutes(app, { sessions, sessionOf, tokens, badToken }, allow);
  addLiveRoute(app, live, allow);
}

const openApiSchema = z
  .looseObject({
    openapi: z.string().describe("The version of OpenAPI."),
    info: z.record(z.string(), z.unknown()).describe("Title and version of the relay."),
    paths: z.record(z.string(), z.unknown()).describe("The operations by path."),
    components: z.record(z.string(), z.unknown()).describe("The schemas and answers that the operations refer to."),
  })
  .meta({ id: "OpenApi", description: "A document of OpenAPI 3.1." });

/** `GET /v1/openapi.json`: describes itself and the endpoints added to `app` after it. Like all of `/v1` it needs a token. */
function addOpenApiRoute(app: FastifyInstance, version: string, allow: Allow): void {
  // A HEAD route that Fastify adds for a GET has the same endpoint.
  const endpoints = new Set<Endpoint>();
  app.addHook("onRoute", ({ config }) => {
    if (config?.endpoint !== undefined) endpoints.add(config.endpoint);
  });
  let text: string | undefined;

  const endpoint = {
    method: "GET",
    path: "/v1/openapi.json",
    name: "describe",
    scope: "read",
    summary: "This description",
    answers: { 200: { text: "OpenAPI 3.1.", schema: openApiSchema } },
  } as const;
  addEndpoint(app, allow, endpoint, async ({ reply }) => {
    // Loaded on demand: few relays ever get this request.
    const { describe } = await import("./openapi.ts");
    text ??= JSON.stringify(describe(endpoints, version));
    return reply.type("application/json").send(text);
  });
}
