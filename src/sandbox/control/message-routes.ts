import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import { messageStatuses } from "../statuses.ts";
import type { MessageRecord } from "../world/records.ts";
import type { ControlParts } from "./parts.ts";
import { found, read, wholeNumber } from "./refusal.ts";
import { accountOf, pageOf, pageQuery, params } from "./request.ts";

const messagesQuery = pageQuery.extend({ status: z.string().optional(), origin: z.string().optional() });
const eventsQuery = pageQuery.extend({ event: z.string().optional(), wamid: z.string().optional() });
const statusOrder = z.strictObject({
  status: z.enum(messageStatuses),
  errorCode: z.union([z.string(), z.number()]).optional(),
});
/** A handler's patience; what takes longer is asked again. */
const longestWaitMs = 600_000;
const waitQuery = z.object({ forMs: wholeNumber(longestWaitMs).default(0) });
const newEvent = z.strictObject({ event: z.string().min(1).max(256), data: z.record(z.string(), z.unknown()).default({}) });

/** Messages with their true status, and the events that were emitted with their deliveries. */
export function addMessageRoutes(app: FastifyInstance, { world, messaging, publisher, posting, baseClock }: ControlParts): void {
  const messageOf = (request: FastifyRequest): MessageRecord => {
    const { id: account } = accountOf(world, request);
    const { id = "" } = params(request);
    return found(world.messages.of(account, id) ?? world.messages.find(account, id), `message ${id}`);
  };
  app.get("/sandbox/messages", (request) => {
    const { status, origin, ...page } = read(messagesQuery, request.query);
    return pageOf(
      world.messages.list(accountOf(world, request).id),
      page,
      (message) => (status === undefined || message.status === status) && (origin === undefined || message.origin === origin),
    );
  });
  app.get("/sandbox/messages/:id", messageOf);
  app.post("/sandbox/messages/:id/status", (request) => {
    const { status, errorCode } = read(statusOrder, request.body);
    const { account, id } = messageOf(request);
    return messaging.setStatus(account, id, status, errorCode);
  });

  app.get("/sandbox/events", (request) => {
    const { event, wamid, ...page } = read(eventsQuery, request.query);
    const { id: account } = accountOf(world, request);
    const { data, next } = pageOf(
      world.events.list(account),
      page,
      (record) => (event === undefined || record.event === event) && (wamid === undefined || record.wamid === wamid),
    );
    const wanted = new Set(data.map(({ id }) => id));
    const deliveries = Map.groupBy(
      world.deliveries.list(account).filter(({ eventId }) => wanted.has(eventId)),
      ({ eventId }) => eventId,
    );
    return { data: data.map((record) => ({ ...record, deliveries: deliveries.get(record.id) ?? [] })), next };
  });
  app.post("/sandbox/events", (request, reply) => {
    const { id: account } = accountOf(world, request);
    const { event, data } = read(newEvent, request.body);
    const about = Object.fromEntries(
      Object.entries({ wamid: data["wamid"], runId: data["runId"] }).filter(([, id]) => typeof id === "string"),
    );
    publisher.publish(account, event, data, about as { wamid?: string; runId?: string });
    reply.code(201);
    return found(world.events.list(account).at(-1), "event");
  });
  // Who waits would hold up a stop.
  const stopping = Promise.withResolvers<void>();
  app.addHook("preClose", async () => stopping.resolve());
  app.get("/sandbox/deliveries/waiting", async (request) => {
    const { forMs } = read(waitQuery, request.query);
    if (posting.waiting() > 0 && forMs > 0) {
      const late = Promise.withResolvers<void>();
      const cancel = baseClock.after(forMs, late.resolve);
      await Promise.race([posting.idle(), late.promise, stopping.promise]);
      cancel();
    }
    return { waiting: posting.waiting() };
  });
}
