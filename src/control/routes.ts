import type { FastifyInstance } from "fastify";
import { type AllowParts, createAllow } from "./auth.ts";
import { addEndpoints, type Handlers } from "./endpoint.ts";
import { createSendingHandlers, type SendingPort } from "./sending.ts";
import { createSessionHandlers, type Sessions } from "./session.ts";
import { addTrackRoute, type TrackPort } from "./track.ts";

/** Those that need nothing of HTTP but what every handler gets. */
export type PlainHandlers = Omit<
  Handlers,
  | keyof ReturnType<typeof createSendingHandlers>
  | keyof ReturnType<typeof createSessionHandlers>
  | "getHealth"
  | "getReadiness"
  | "trackMessages"
  | "describe"
>;

interface ControlParts extends Omit<AllowParts, "sessionOf"> {
  readonly plain: PlainHandlers;
  readonly tracking: TrackPort;
  readonly sending: SendingPort;
  readonly version: string;
  readonly sessions: Sessions;
}

export function addControlRoutes(app: FastifyInstance, parts: ControlParts): void {
  const allow = createAllow({ ...parts, sessionOf: (request) => parts.sessions.of(request) });
  const handlers: Omit<Handlers, "getHealth" | "getReadiness" | "trackMessages"> = {
    ...parts.plain,
    ...createSendingHandlers(parts.sending),
    ...createSessionHandlers(parts),
    describe: describing(parts.version),
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
