import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { type attemptSchema, deliveryGroupsSchema, deliveryPageSchema, retriedSchema } from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import { deliveryStates } from "../model/states.ts";
import { toAnswer, type View } from "../model/view.ts";
import { type Allow, addEndpoint, listLimit, nextOfBefore, time } from "./endpoint.ts";

export interface DeliveriesPort {
  /** Newest events first. */
  listDeliveries(filter: DeliveryQuery): Promise<View<typeof deliveryPageSchema>>;
  /** Largest first. */
  groupDeliveries(filter: GroupQuery): Promise<View<typeof deliveryGroupsSchema>>;
}

export interface RetryPort {
  /** Null when the delivery does not exist. Throws `conflict` when its route is not in the settings. */
  retry(deliveryId: string): Promise<View<typeof retriedSchema> | null>;
}

/** With the bytes of the response as received. */
export interface AttemptView extends Omit<View<typeof attemptSchema>, "response"> {
  readonly response: Buffer | null;
}

/** In place of a cause: no attempt failed. */
const noCause = "none";
export const cause = z
  .string()
  .min(1)
  .max(64)
  .transform((text) => (text === noCause ? null : text))
  .optional()
  .describe(
    `Only those whose last failed attempt failed for this reason, such as \`503\` or \`timeout\`. \`${noCause}\`: those of which no attempt failed.`,
  );

const deliveryQuery = z.strictObject({
  route: z.string().optional().describe("Only of this route; `proxy:{source}` for proxied exchanges."),
  state: z.enum(deliveryStates).optional().describe("Only in this state."),
  cause,
  errorCode: z.string().optional().describe("Only of events with this error code, such as `131026`."),
  from: time.optional().describe("Of events received at or after this time."),
  to: time.optional().describe("Of events received before this time."),
  before: z
    .string()
    .regex(/^\d{1,15}\..{0,200}$/, "is not the next of a page before")
    .optional()
    .describe(nextOfBefore),
  limit: listLimit,
});
type DeliveryQuery = z.infer<typeof deliveryQuery>;

const list = {
  method: "GET",
  path: "/v1/deliveries",
  name: "listDeliveries",
  scope: "read",
  summary: "Deliveries, those of the newest events first",
  query: deliveryQuery,
  answers: { 200: { text: "The deliveries that meet every condition.", schema: deliveryPageSchema } },
} as const;

const groupQuery = deliveryQuery.pick({ route: true, state: true, errorCode: true, from: true, to: true });
type GroupQuery = z.infer<typeof groupQuery>;

const groups = {
  method: "GET",
  path: "/v1/deliveries/groups",
  name: "groupDeliveries",
  scope: "read",
  summary: "Undelivered deliveries, counted by route, state and cause",
  query: groupQuery,
  answers: { 200: { text: "The groups, largest first.", schema: deliveryGroupsSchema } },
} as const;

const retry = {
  method: "POST",
  path: "/v1/deliveries/:id/retry",
  name: "retryDelivery",
  scope: "replay",
  summary: "Sends a delivery now",
  description: "A settled delivery waits again, under the same id. A held one stays held behind its message's earlier delivery.",
  params: z.strictObject({ id: z.string().describe("The delivery's id.") }),
  answers: {
    200: {
      text: "Its state now and before the retry.",
      schema: retriedSchema,
    },
  },
  errors: ["not_found", "conflict"],
} as const;

/** `GET /v1/deliveries` and `GET /v1/deliveries/groups`. */
export function addDeliveriesRoutes(app: FastifyInstance, port: DeliveriesPort, allow: Allow): void {
  addEndpoint(app, allow, list, async ({ query }) => toAnswer(deliveryPageSchema, await port.listDeliveries(query)));
  addEndpoint(app, allow, groups, async ({ query }) => toAnswer(deliveryGroupsSchema, await port.groupDeliveries(query)));
}

/** `POST /v1/deliveries/{id}/retry`. */
export function addRetryRoute(app: FastifyInstance, port: RetryPort, allow: Allow): void {
  addEndpoint(app, allow, retry, async ({ params: { id } }) => {
    const retried = await port.retry(id);
    if (retried === null) throw new RelayError("not_found", "no such delivery");
    return toAnswer(retriedSchema, retried);
  });
}

export function attemptOf(view: AttemptView): View<typeof attemptSchema> {
  return { ...view, response: view.response === null ? null : view.response.toString("utf8") };
}
