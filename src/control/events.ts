import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../model/errors.ts";
import { dispositions } from "../model/plan.ts";
import { type AttemptView, type DeliveryView, presentAttempt, presentDelivery } from "./deliveries.ts";
import { type Allow, accountQuery, addEndpoint, iso, listBefore, listLimit, type Page, time } from "./endpoint.ts";

export interface EventsPort {
  /** Newest first. */
  listEvents(filter: EventQuery): Promise<EventPage>;
  /** By `seq` when `id` is the seq of an event, else by event id: one for each account that has it. */
  findEvents(id: string): Promise<readonly EventDetail[]>;
  deliveriesOf(event: number): Promise<readonly (DeliveryView & { readonly tries: readonly AttemptView[] })[]>;
}

interface EventPage extends Page<EventView, number> {
  /** For a query by wamid: number of oldest unplanned events that were not searched. */
  readonly unseen: number;
}

interface EventView {
  readonly seq: number;
  readonly account: string;
  readonly receivedAt: number;
  readonly createdAt: number | null;
  readonly parkedUntil: number | null;
}

export interface EventDetail extends EventView {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly verdicts: readonly (readonly [route: string, verdict: string, reason?: string])[];
  /** Hydration of a truncated event; null for all others. */
  readonly hydration: HydrationView | null;
}

interface HydrationView {
  readonly state: string;
  readonly settledAt: number | null;
}

const eventQuery = z.strictObject({
  event: z.string().optional(),
  source: z.string().optional(),
  account: z.string().optional(),
  status: z.string().optional(),
  disposition: z.enum(dispositions).optional(),
  wamid: z.string().optional(),
  from: time.optional().describe("Received from this on."),
  to: time.optional().describe("Received before this."),
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
    "`unseen` is 0 unless a `wamid` is asked for and too many events wait to be planned to look through all of them: so many, the oldest, were not.",
  query: eventQuery,
  answers: { 200: { text: "Those for which all that is given holds.", list: true } },
} as const;

const detail = {
  method: "GET",
  path: "/v1/events/:id",
  name: "getEvent",
  scope: "read",
  summary: "One event with its bytes, what each route did with it, and its deliveries",
  description: "When events of several accounts have the id, `bad_request` lists them.",
  params: z.strictObject({ id: z.string().describe("Its id or seq.") }),
  query: accountQuery,
  answers: { 200: "The event; `body` is base64." },
  errors: ["not_found"],
} as const;

/** `GET /v1/events` and `GET /v1/events/{id}`. */
export function addEventRoutes(app: FastifyInstance, port: EventsPort, allow: Allow): void {
  addEndpoint(app, allow, list, async ({ query }) => {
    const { data, next, unseen } = await port.listEvents(query);
    return { data: data.map(presentEvent), next, unseen };
  });

  addEndpoint(app, allow, detail, async ({ params: { id }, query: { account } }) => {
    const found = await port.findEvents(id);
    const event = onlyOne(found.filter((each) => account === undefined || each.account === account));
    const deliveries = await port.deliveriesOf(event.seq);
    return {
      ...presentEventDetail(event),
      deliveries: deliveries.map(({ tries, ...delivery }) => ({ ...presentDelivery(delivery), tries: tries.map(presentAttempt) })),
    };
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

function presentEvent<T extends EventView>(view: T) {
  return { ...view, receivedAt: iso(view.receivedAt), createdAt: iso(view.createdAt), parkedUntil: iso(view.parkedUntil) };
}

/** With the received bytes as base64, and as text if they are UTF-8. */
export function presentEventDetail<T extends EventDetail>(view: T) {
  const { body, verdicts, hydration, ...rest } = view;
  return {
    ...presentEvent(rest as unknown as EventView),
    body: body.toString("base64"),
    text: presentBytes(body),
    hydration: hydration === null ? null : { ...hydration, settledAt: iso(hydration.settledAt) },
    routes: verdicts.map(([route, verdict, reason]) => ({ route, verdict, ...(reason === undefined ? {} : { reason }) })),
  };
}

function presentBytes(bytes: Buffer): string | null {
  const text = bytes.toString("utf8");
  return Buffer.from(text, "utf8").equals(bytes) ? text : null;
}
