import type { FastifyInstance } from "fastify";
import { RelayError } from "../event/errors.ts";
import { goneSignal } from "./gone-signal.ts";
import { parse } from "./queries.ts";
import type { OnRequest } from "./reading-routes.ts";
import { keyHeader, messageBody, runBody, sendQuery } from "./sending-body.ts";
import type { SendingPort } from "./sending-port.ts";

/** The part of `/v1` that calls the messaging service: docs/sending.md. */
export function addSendingRoutes(app: FastifyInstance, sending: SendingPort, onRequest: OnRequest): void {
  app.post("/v1/messages", { onRequest }, async (request, reply) => {
    const { resend, maxWait } = parse(sendQuery, request.query);
    const body = parse(messageBody, request.body ?? undefined);
    const key = readKey(request.headers["idempotency-key"]);
    if (key === null && resend > 0) throw new RelayError("bad_request", "resend needs the Idempotency-Key that it is about");
    const { answer, replayed, stored } = await sending.sendMessage({ ...body, key, resend }, { gone: goneSignal(reply), maxWait });
    if (replayed) reply.header("idempotent-replayed", "true");
    return reply.code(stored ? 201 : 202).send({ ...answer, stored });
  });

  app.post<{ Params: { id: string } }>("/v1/automations/:id/runs", { onRequest }, async (request, reply) => {
    const { resend, maxWait } = parse(sendQuery, request.query);
    const body = parse(runBody, request.body ?? undefined);
    const order = { ...body, automation: request.params.id, resend };
    const { answer, replayed, stored } = await sending.startRun(order, { gone: goneSignal(reply), maxWait });
    return reply.code(!stored ? 202 : replayed ? 200 : 201).send({ ...answer, created: !replayed, stored });
  });
}

function readKey(header: string | string[] | undefined): string | null {
  const read = keyHeader.safeParse(Array.isArray(header) ? header.join(", ") : header);
  if (read.success) return read.data ?? null;
  throw new RelayError("bad_request", `Idempotency-Key: ${read.error.issues.map(({ message }) => message).join("; ")}`);
}
