import type { FastifyInstance } from "fastify";
import type { Handshake } from "./meta/callbacks.ts";
import type { Journal } from "./table.ts";
import type { DeliveryRecord, MessageRecord, RunRecord, World } from "./world.ts";

/** Phones and wamids are in clear: the people are made up. */
export type Happening =
  | { readonly what: "message"; readonly message: MessageRecord }
  | {
      readonly what: "event";
      readonly event: string;
      readonly eventId: string;
      readonly status: string | null;
      readonly url: string;
      readonly delivery: DeliveryRecord;
    }
  | { readonly what: "run"; readonly run: RunRecord }
  | {
      readonly what: "refused";
      readonly method: string;
      readonly path: string;
      readonly status: number;
      readonly error: string;
    }
  | ({ readonly what: "handshake" } & Handshake)
  /** The sandbox's own failure: a bug. */
  | { readonly what: "failed"; readonly error: unknown };

export function reportChanges(world: World, report: (happening: Happening) => void): Journal {
  const last = new WeakMap<object, string>();
  const reportNew = (record: object, state: string, happening: () => Happening): void => {
    if (last.get(record) === state) return;
    last.set(record, state);
    report(happening());
  };
  const ofDelivery = (delivery: DeliveryRecord): Happening => {
    const { eventId, webhookId } = delivery;
    const { event = "", status = null } = world.events.get(eventId) ?? {};
    return {
      what: "event",
      event,
      eventId,
      status,
      url: world.webhooks.get(webhookId)?.url ?? "",
      delivery,
    };
  };
  return {
    changed(kind, _id, record) {
      if (record === null) return;
      const [message, run, delivery] = [
        record as MessageRecord,
        record as RunRecord,
        record as DeliveryRecord,
      ];
      if (kind === "message")
        reportNew(message, message.status, () => ({ what: "message", message }));
      if (kind === "run") reportNew(run, run.status, () => ({ what: "run", run }));
      const isTried = kind === "delivery" && (delivery.status !== "waiting" || delivery.tries > 0);
      if (isTried)
        reportNew(delivery, `${delivery.status} ${delivery.tries}`, () => ofDelivery(delivery));
    },
  };
}

/** Not of `/sandbox`: its caller sees them. */
export function reportRefusals(app: FastifyInstance, report: (happening: Happening) => void): void {
  app.addHook("onSend", (request, reply, payload, done) => {
    if (reply.statusCode >= 400 && !request.url.startsWith("/sandbox")) {
      report({
        what: "refused",
        method: request.method,
        path: request.url,
        status: reply.statusCode,
        error: errorIn(payload),
      });
    }
    done(null, payload);
  });
}

function errorIn(payload: unknown): string {
  try {
    const { error } = JSON.parse(payload as string) as { error?: string | { message?: string } };
    return typeof error === "string" ? error : (error?.message ?? "");
  } catch {
    return "";
  }
}
