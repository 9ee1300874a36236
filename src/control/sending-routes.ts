import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../event/errors.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import { goneSignal } from "./gone-signal.ts";
import { messageBody, runBody, sendHeaders, sendQuery } from "./sending-body.ts";
import type { SendingPort } from "./sending-port.ts";

const errors = [
  "conflict",
  "idempotency_conflict",
  "outcome_unknown",
  "service_refused",
  "service_rate_limited",
  "service_quota_used_up",
  "service_unreachable",
  "service_key_refused",
  "shutting_down",
] as const;

const message = {
  method: "POST",
  path: "/v1/messages",
  name: "sendMessage",
  scope: "send",
  summary: "Sends a message, once per Idempotency-Key",
  query: sendQuery,
  headers: sendHeaders,
  body: messageBody,
  answers: {
    201: "Sent and registered; or the first answer again, with the header `idempotent-replayed: true`.",
    202: "Sent, but not stored: `stored` is false.",
  },
  errors,
} as const;

const run = {
  method: "POST",
  path: "/v1/automations/:id/runs",
  name: "startRun",
  scope: "send",
  summary: "Starts a run of an automation, once per reference",
  params: z.strictObject({ id: z.string().describe("The automation's.") }),
  query: sendQuery,
  body: runBody,
  answers: {
    200: "It had been started before: `created` is false.",
    201: "Started now.",
    202: "Started, but not stored: `stored` is false.",
  },
  errors,
} as const;

/** The part of `/v1` that calls the messaging service: docs/sending.md. */
export function addSendingRoutes(app: FastifyInstance, sending: SendingPort, allow: Allow): void {
  addEndpoint(app, allow, message, async ({ query: { resend = 0, maxWait }, headers, body, reply }) => {
    const key = headers["idempotency-key"] ?? null;
    if (key === null && resend > 0) throw new RelayError("bad_request", "resend needs the Idempotency-Key that it is about");
    const { answer, replayed, stored } = await sending.sendMessage({ ...body, key, resend }, { gone: goneSignal(reply), maxWait });
    if (replayed) reply.header("idempotent-replayed", "true");
    return reply.code(stored ? 201 : 202).send({ ...answer, stored });
  });

  addEndpoint(app, allow, run, async ({ params, query: { resend = 0, maxWait }, body, reply }) => {
    const order = { ...body, automation: params.id, resend };
    const { answer, replayed, stored } = await sending.startRun(order, { gone: goneSignal(reply), maxWait });
    return reply.code(!stored ? 202 : replayed ? 200 : 201).send({ ...answer, created: !replayed, stored });
  });
}
