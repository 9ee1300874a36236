import { isUtf8 } from "node:buffer";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { type DeliveryView, type EventView, eventDetailSchema, eventPageSchema, type HydrationView } from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import { dispositions } from "../model/plan.ts";
import { toAnswer, type View } from "../model/view.ts";
import { type AttemptView, attemptOf } from "./deliveries.ts";
import { type Allow, accountQuery, addEndpoint, listBefore, listLimit, time } from "./endpoint.ts";
import { lookUp } from "./guesses.ts";

export interface EventsPort {
  /** Newest first. `wholeOnly`: by whole names, not by the end of a phone number. */
  listEvents(filter: EventQuery, wholeOnly: boolean): Promise<View<typeof eventPageSchema>>;
  /** By `seq` when `id` is the seq of an event, else by event id: one for each account that has it. */
  findEvents(id: string): Promise<readonly EventDetail[]>;
  deliveriesOf(event: number): Promise<readonly (DeliveryView & { readonly attemptHistory: readonly AttemptView[] })[]>;
}

/** With the bytes as received, and the verdicts as stored. */
export interface EventDetail extends EventView {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly verdicts: readonly (readonly [route: string, verdict: string, reason?: string])[];
  readonly hydration: HydrationView | null;
}

const eventQuery = z.strictObject({
  event: z.string().optional().describe("Only this event kind."),
  source: z.string().optional().describe("Only from this source."),
  account: z.string().optional().describe("Only of this account."),
  status: z.string().optional().describe("Only with this status."),
  disposition: z.enum(dispositions).optional().describe("Only with this disposition."),
  errorCode: z.string().optional().describe("Only with this error code."),
  wamid: z.string().optional().describe("Only of this message; its wamid may be masked."),
  subject: z.string().optional().describe("Only of this message or run: its wamid or run id, masked or not."),
  q: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Only the event, or the events of the message or run, with this name: an id, masked or not, a seq, a reference, or the last digits of a phone number, at least four. Without `pii`: whole names.",
    ),
  from: time.optional().describe("Received at or after this time."),
  to: time.optional().describe("Received before this time."),
  before: listBefore,
  limit: listLimit,
});
type EventQuery = z.infer<typeof eventQuery>;

const list = {
  method: "GET",
  path: "/v1/events",
  name: "listEvents",
  scope: "read",
  summary: "Events, without their bodies",
  description:
    "Give at most one of `wamid`, `subject` and `q`. `unseen` is 0 unless the query has a `wamid` and too many events are unplanned to search all of them. It counts the oldest ones, which were not searched.",
  query: eventQuery,
  answers: { 200: { text: "The events that meet every condition.", schema: eventPageSchema } },
  errors: ["too_many_guesses"],
} as const;

const detail = {
  method: "GET",
  path: "/v1/events/:id",
  name: "getEvent",
  scope: "read",
  summary: "One event with its bytes, the verdicts of the routes, and its deliveries",
  description: "When events of several accounts have the id, `bad_request` lists them.",
  params: z.strictObject({ id: z.string().describe("Its id or seq.") }),
  query: accountQuery,
  answers: { 200: { text: "The event; `body` is base64.", schema: eventDetailSchema } },
  errors: ["not_found", "too_many_guesses"],
} as const;

/** `GET /v1/events` and `GET /v1/events/{id}`. */
export function addEventRoutes(app: FastifyInstance, port: EventsPort, allow: Allow): void {
  addEndpoint(app, allow, list, async ({ query, request }) => {
    const { q, wamid, subject } = query;
    const find = (wholeOnly: boolean) => port.listEvents(query, wholeOnly);
    return toAnswer(eventPageSchema, await lookUp(request, { names: [q, wamid, subject] }, find, ({ data }) => data.length > 0));
  });

  addEndpoint(app, allow, detail, async ({ params: { id }, query: { account }, request }) => {
    const names = [id];
    const found = await lookUp(
      request,
      { names },
      () => port.findEvents(id),
      ({ length }) => length > 0,
    );
    const event = onlyOne(found.filter((each) => account === undefined || each.account === account));
    const deliveries = await port.deliveriesOf(event.seq);
    return toAnswer(eventDetailSchema, {
      ...event,
      body: event.body.toString("base64"),
      text: utf8Text(event.body),
      routes: routesOf(event),
      deliveries: deliveries.map((delivery) => ({ ...delivery, attemptHistory: delivery.attemptHistory.map(attemptOf) })),
    });
  });
}

function onlyOne(events: readonly EventDetail[]): EventDetail {
  const [event, ...others] = events;
  if (event === undefined) throw new RelayError("not_found", "no such event");
  if (others.length > 0) {
    throw new RelayError(
      "bad_request",
      "events of several accounts have this id; ask with account=, or by seq",
      events.map(({ seq, account }) => ({ seq, account })),
    );
  }
  return event;
}

export function routesOf({ verdicts }: EventDetail) {
  return verdicts.map(([route, verdict, reason]) => ({ route, verdict, ...(reason === undefined ? {} : { reason }) }));
}

/** Null when the bytes are not UTF-8. */
function utf8Text(bytes: Buffer): string | null {
  return isUtf8(bytes) ? bytes.toString("utf8") : null;
}
