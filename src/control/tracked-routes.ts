import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../event/errors.ts";
import { iso } from "./present.ts";
import { listLimit, parse } from "./queries.ts";
import type { OnRequest } from "./reading-routes.ts";
import type { MessageView, RunView, TrackedReading } from "./tracked-port.ts";

const messageQuery = z.strictObject({
  account: z.string().optional(),
  status: z.string().optional(),
  reference: z.string().optional(),
  before: z.coerce.number().int().min(1).optional(),
  limit: listLimit,
});
const runQuery = messageQuery.extend({ runId: z.string().optional() });
const accountQuery = z.strictObject({ account: z.string().optional() });

/** Messages and runs as they are tracked. */
export function addTrackedRoutes(app: FastifyInstance, reading: TrackedReading, onRequest: OnRequest): void {
  const read = { onRequest };

  app.get("/v1/messages", read, async (request) => {
    const { data, next } = await reading.listMessages(parse(messageQuery, request.query));
    return { data: data.map(presentMessage), next };
  });

  app.get<{ Params: { wamid: string } }>("/v1/messages/:wamid", read, async (request) => {
    const { account } = parse(accountQuery, request.query);
    const found = await reading.findMessages(request.params.wamid);
    const [message, ...others] = found.filter((each) => account === undefined || each.account === account);
    if (message === undefined) throw new RelayError("not_found", "no such message");
    if (others.length === 0) return presentMessage(message);
    throw new RelayError(
      "bad_request",
      "several messages have this; ask by wamid, with account= where two accounts have it",
      [message, ...others].map(({ account: of, wamid }) => ({ account: of, wamid })),
    );
  });

  app.get("/v1/runs", read, async (request) => {
    const { data, next } = await reading.listRuns(parse(runQuery, request.query));
    return { data: data.map(presentRun), next };
  });
}

export function presentMessage(view: MessageView) {
  return { ...presentRun(view), sentAt: iso(view.sentAt) };
}

export function presentRun<T extends MessageView | RunView>(view: T) {
  const { times, registeredAt, updatedAt } = view;
  return {
    ...view,
    times: Object.fromEntries(Object.entries(times).map(([status, at]) => [status, iso(at)])),
    registeredAt: iso(registeredAt),
    updatedAt: iso(updatedAt),
  };
}
