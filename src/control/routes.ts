import type { FastifyInstance } from "fastify";
import { type AllowParts, createAllow } from "./auth.ts";
import { addEndpoints, type Handlers } from "./endpoint.ts";
import { createListenHandlers, type ListenPort } from "./listen.ts";
import { createLiveHandlers, type LivePort } from "./live.ts";
import { createHistoryHandlers, createReadingHandlers, type ExplainPort, type HistoryPort, type Reading } from "./reading.ts";
import { createSendingHandlers, type SendingPort } from "./sending.ts";
import { createSessionHandlers, type Sessions } from "./session.ts";
import { addTrackRoute, type TrackPort } from "./track.ts";

export type PlainHandlers = Pick<
  Handlers,
  | "getOverview"
  | "audit"
  | "getInstance"
  | "getSettings"
  | "listListeners"
  | "listSecrets"
  | "listSources"
  | "reloadSettings"
  | "getReload"
  | "retryDelivery"
  | "replay"
  | "resumeRoute"
  | "performHandshake"
  | "checkSource"
  | "resumeAccount"
  | "reconcile"
  | "listAccounts"
>;

interface ControlParts extends Omit<AllowParts, "sessionOf"> {
  readonly plain: PlainHandlers;
  readonly reading: Reading;
  readonly explain: ExplainPort;
  readonly tracking: TrackPort;
  readonly sending: SendingPort;
  readonly listening: ListenPort;
  readonly history: HistoryPort;
  readonly live: LivePort;
  readonly sessions: Sessions;
}

export function addControlRoutes(app: FastifyInstance, parts: ControlParts): void {
  const { listening } = parts;
  const allow = createAllow({ ...parts, sessionOf: (request) => parts.sessions.of(request) });
  const handlers: Omit<Handlers, "getHealth" | "getReadiness" | "trackMessages"> = {
    ...parts.plain,
    ...createReadingHandlers(parts.reading, parts.explain),
    ...createHistoryHandlers(parts.history),
    ...createSendingHandlers(parts.sending),
    ...createListenHandlers(app, listening),
    ...createLiveHandlers(app, parts.live),
    ...createSessionHandlers(parts),
    describe: describing(listening.version),
  };
  addEndpoints(app, allow, handlers);
  addTrackRoute(app, parts.tracking, allow);
}

function describing(version: string): Handlers["describe"] {
  let text: string | undefined;
  return async (_input, { reply }) => {
    // Loaded on demand: few relays ever get this request.
    const { describe } = await import("./openapi.ts");
    text ??= JSON.stringify(describe(version));
    return reply.type("application/json").send(text);
  };
}
