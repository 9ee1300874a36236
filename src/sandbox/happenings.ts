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
  | { readonly what: "refused"; readonly method: string; readonly path: string; readonly status: number; readonly error: string }
  | ({ readonly what: "handshake" } & Handshake)
  /** The sandbox's own failure: a bug. */
  | { readonly what: "failed"; readonly error: unknown };

export function reportChanges(world: World, report: (happening: Happening) => void): Journal {
  const last = new WeakMap<object, string>();
  const isNew = (record: object, state: string): boolean => {
    if (last.get(record) === state) return false;
    last.set(record, state);
    return true;
  };
  const tellDelivery = (delivery: DeliveryRecord): void => {
    const { eventId, webhookId, status, tries } = delivery;
    if ((status === "waiting" && tries === 0) || !isNew(delivery, `${status} ${tries}`)) return;
    const { event = "", status: reported = null } = world.events.get(eventId) ?? {};
    report({ what: "event", event, eventId, status: reported, url: world.webhooks.get(webhookId)?.url ?? "", delivery });
  };
  return {
    changed(kind, _id, record) {
      if (record === null) return;
      if (kind === "message") {
        const message = record as MessageRecord;
        if (isNew(message, message.status)) report({ what: "message", message });
      } else if (kind === "run") {
        const run = record as RunRecord;
        if (isNew(run, run.status)) report({ what: "run", run });
      } else if (kind === "delivery") tellDelivery(record as DeliveryRecord);
    },
  };
}

export function reportRefusals(app: FastifyInstance, report: (happening: Happening) => void): void {
  app.addHook("onSend", (request, reply, payload, done) => {
    if (reply.statusCode >= 400 && !request.url.startsWith("/sandbox")) {
      report({ what: "refused", method: request.method, path: request.url, status: reply.statusCode, error: errorIn(payload) });
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
