import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../model/errors.ts";
import { type Allow, addEndpoint, iso, listLimit, nextOfBefore, type Page } from "./endpoint.ts";

export interface DeliveriesPort {
  /** Newest events first. */
  listDeliveries(filter: DeliveryQuery): Promise<Page<DeliveryView, string>>;
}

export interface RetryPort {
  /** Null when the delivery does not exist. Throws `conflict` when its route is not in the settings. */
  retry(deliveryId: string): Promise<Retried | null>;
}

export interface DeliveryView {
  readonly id: string;
  readonly event: number;
  readonly nextAt: number | null;
  readonly settledAt: number | null;
}

export interface AttemptView {
  readonly number: number;
  readonly at: number;
  readonly tookMs: number;
  readonly status: number | null;
  readonly error: string | null;
  readonly response: Buffer | null;
}

interface Retried {
  readonly id: string;
  readonly route: string;
  /** `waiting`: goes out now; `held`: waits for an earlier delivery of its message. */
  readonly state: string;
  /** The state before the retry. */
  readonly previousState: string;
  /** Why the destination is stopped; null when it is not. */
  readonly stopped: string | null;
  /** Unix ms until which the destination asked not to be called (429 with Retry-After); null when it did not. */
  readonly pausedUntil: number | null;
}

const deliveryQuery = z.strictObject({
  route: z.string().optional().describe("`proxy:{source}` for proxied exchanges."),
  state: z.enum(["waiting", "held", "delivered", "dead"]).optional(),
  before: z
    .string()
    .regex(/^\d{1,15}\.\d{1,15}$/, "is not the next of a page before")
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
  answers: { 200: { text: "Those for which all that is given holds.", list: true } },
} as const;

const retry = {
  method: "POST",
  path: "/v1/deliveries/:id/retry",
  name: "retryDelivery",
  scope: "replay",
  summary: "Lets a delivery go out now",
  description: "A settled one waits again, under the same id; a held one stays held behind its message's earlier one.",
  params: z.strictObject({ id: z.string() }),
  answers: {
    200: "Its state now and before; `stopped` and `pausedUntil` are null unless its destination waits for an operator, or until then.",
  },
  errors: ["not_found", "conflict"],
} as const;

/** `GET /v1/deliveries`. */
export function addDeliveriesRoute(app: FastifyInstance, port: DeliveriesPort, allow: Allow): void {
  addEndpoint(app, allow, list, async ({ query }) => {
    const { data, next } = await port.listDeliveries(query);
    return { data: data.map(presentDelivery), next };
  });
}

/** `POST /v1/deliveries/{id}/retry`. */
export function addRetryRoute(app: FastifyInstance, port: RetryPort, allow: Allow): void {
  addEndpoint(app, allow, retry, async ({ params: { id } }) => {
    const retried = await port.retry(id);
    if (retried === null) throw new RelayError("not_found", "no such delivery");
    return { ...retried, pausedUntil: iso(retried.pausedUntil) };
  });
}

export function presentDelivery<T extends DeliveryView>(view: T) {
  return { ...view, nextAt: iso(view.nextAt), settledAt: iso(view.settledAt) };
}

export function presentAttempt(view: AttemptView) {
  return { ...view, at: iso(view.at), response: view.response === null ? null : view.response.toString("utf8") };
}
