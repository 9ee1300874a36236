import { startOf } from "../../src/hydrate/candidates.ts";
import type { ReceivedEvent } from "../../src/model/event.ts";
import type { EventId, RunId, Wamid } from "../../src/model/ids.ts";
import { stepMessage, stepRun } from "../../src/model/tracking.ts";
import { createPlanner } from "../../src/route/plan.ts";
import { routingSchema, type UnknownPolicy } from "../../src/route/settings.ts";
import type { Rules } from "../../src/store/port.ts";

/** A moment for tests: 2027-01-15. */
export const start = 1_800_000_000_000;

export interface EventParts {
  readonly id?: string;
  readonly event?: string;
  readonly account?: string;
  readonly source?: string;
  readonly wamid?: string;
  readonly runId?: string;
  readonly status?: string | null;
  readonly errorCode?: string | null;
  readonly at?: number;
  readonly receivedAt?: number;
  /** More of `data`, to make other bytes. */
  readonly data?: Record<string, unknown>;
  readonly secret?: string | null;
}

/** The bytes of an event that were not understood. */
export function unreadable(
  { envelope: _, subject: __, ...received }: ReceivedEvent,
  error = "not understood",
) {
  return { ...received, error };
}

let made = 0;

/** A proved event as receiving hands it in; ids are new each time. */
export function anEvent(parts: EventParts = {}): ReceivedEvent {
  made += 1;
  const {
    wamid,
    runId,
    status = runId === undefined ? "sent" : null,
    errorCode = null,
    receivedAt = start,
    at = receivedAt,
  } = parts;
  const { event = runId === undefined ? "message.status" : "automation.completed" } = parts;
  const data = {
    ...(wamid === undefined ? {} : { wamid, status }),
    ...(runId === undefined ? {} : { runId }),
    ...(errorCode === null ? {} : { errorCode }),
    ...parts.data,
  };
  const envelope = {
    id: (parts.id ?? `event-${made}`) as EventId,
    event,
    createdAt: new Date(at).toISOString(),
    data,
  };
  return {
    account: parts.account ?? "main",
    source: parts.source ?? "main",
    origin: "webhook",
    receivedAt,
    body: Buffer.from(JSON.stringify(envelope)),
    headers: {},
    secret: parts.secret === undefined ? "fingerprint" : parts.secret,
    envelope,
    subject:
      wamid !== undefined
        ? { type: "message", wamid: wamid as Wamid, status, errorCode }
        : runId !== undefined
          ? {
              type: "run",
              runId: runId as RunId,
              status: event === "automation.failed" ? "failed" : "completed",
              error: null,
            }
          : { type: "none" },
  };
}

export interface RouteParts {
  readonly name: string;
  readonly match?: Record<string, unknown>;
  readonly emit?: "events" | "transitions";
  readonly order?: "message" | "none";
  /** Wait before a first attempt, in ms. */
  readonly firstWait?: number;
  readonly truncated?: "forward" | "hold";
}

/** The relay's own rules over these routes. */
export function rulesFor(
  routes: readonly RouteParts[],
  { unknown = "park" as UnknownPolicy, parkFor = 60_000 } = {},
): Rules {
  const plan = createPlanner(
    routes.map(({ name, match = {}, emit = "events", truncated = "forward" }) =>
      routingSchema.parse({ name, match, emit, truncated }),
    ),
    unknown,
  );
  const timings = new Map(
    routes.map(({ name, order = "message", firstWait = 0 }) => [
      name,
      { ordered: order === "message", firstWait },
    ]),
  );
  // Every account can be asked but the one called so.
  const hydration: Rules["hydration"] = ({ event, account, hasSubject }) =>
    startOf({ event, hasSubject, hasKey: account !== "keyless" });
  return {
    stepMessage,
    stepRun,
    plan,
    hydration,
    timing: (route) => timings.get(route) ?? { ordered: true, firstWait: 0 },
    parkFor,
  };
}

/** Where a walk begins that finds what settled up to `since`. */
export const startOfWalk = (since: number) => ({ since, event: 0, lane: 0, route: "" });
