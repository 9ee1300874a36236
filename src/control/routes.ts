import type { FastifyInstance } from "fastify";
import { allEndpoints } from "../model/endpoints/table.ts";
import type { OverviewView } from "../model/overview.ts";
import { type BadTokenHook, createAllow, type RevealedHook, type Tokens } from "./auth.ts";
import { addEndpoints, type Handlers } from "./endpoint.ts";
import { type AuditPort, createAuditHandlers, createHistoryHandlers, type HistoryPort } from "./figures.ts";
import type { Guess } from "./guesses.ts";
import { createListenHandlers } from "./listen.ts";
import type { ListenPort } from "./listen-stream.ts";
import { createLiveHandlers, type LivePort } from "./live.ts";
import {
  type ActingPort,
  createActingHandlers,
  createProcessHandlers,
  createReconcileHandlers,
  type ProcessPort,
  type ReconcilePort,
} from "./operate.ts";
import { createReadingHandlers, type ExplainPort, type Reading } from "./reading.ts";
import { createSendingHandlers, type SendingPort } from "./sending.ts";
import { createSessionCheck, createSessionHandlers, type Sessions } from "./session.ts";
import { addTrackRoute, type TrackPort } from "./track.ts";

/** The port for everything that reads or writes the store. Views are plain data; times in them are unix ms. */
export interface Control extends Reading, ActingPort, TrackPort {}

export interface OverviewPort {
  read(): Promise<OverviewView>;
}

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
  readonly process: ProcessPort;
  readonly sessions: Sessions;
  readonly tokens: () => Tokens;
  readonly badToken: BadTokenHook;
  readonly revealed: RevealedHook;
  readonly guess: Guess;
}

/** The control API under `/v1`. */
export function addControlRoutes(app: FastifyInstance, parts: ControlParts): void {
  const { control, explain, overview, listening, sessions, tokens, badToken, revealed, guess } = parts;
  const sessionOf = createSessionCheck(sessions);
  const allow = createAllow({ tokens, badToken, revealed, guess, sessionOf });
  const handlers: Omit<Handlers, "getHealth" | "getReadiness" | "trackMessages"> = {
    ...createReadingHandlers(control, explain),
    ...createHistoryHandlers(parts.history),
    ...createAuditHandlers(parts.audit),
    ...createProcessHandlers(parts.process),
    ...createActingHandlers(control),
    ...createReconcileHandlers(parts.reconcile),
    ...createSendingHandlers(parts.sending),
    ...createListenHandlers(app, listening),
    ...createLiveHandlers(app, parts.live),
    ...createSessionHandlers({ sessions, sessionOf, tokens, badToken }),
    getOverview: () => overview.read(),
    describe: describing(listening.version),
  };
  addEndpoints(app, allow, handlers);
  addTrackRoute(app, control, allow);
}

function describing(version: string): Handlers["describe"] {
  let text: string | undefined;
  return async (_input, { reply }) => {
    // Loaded on demand: few relays ever get this request.
    const { describe } = await import("./openapi.ts");
    text ??= JSON.stringify(describe(allEndpoints, version));
    return reply.type("application/json").send(text);
  };
}
