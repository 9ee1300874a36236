import { hash } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { addGate, callerOf, graphMessages } from "../api/app.ts";
import { ApiFault, answerTo, problemLines } from "../api/fault.ts";
import { parsePhone } from "../messaging/lives.ts";
import { approvedTemplates } from "../messaging/messaging.ts";
import type { Service } from "../service.ts";
import type { MessageRecord, World } from "../world.ts";
import { userIdOf, waIdOf } from "./updates.ts";

export function addGraphRoutes(
  app: FastifyInstance,
  service: Service,
  failed: (error: unknown) => void,
): void {
  const { world, messaging, events } = service;
  const send = (account: string, phoneNumberId: string, body: GraphSend): MessageRecord => {
    const to =
      body.recipient === undefined
        ? parsePhone(`+${waIdOf(body.to ?? "")}`)
        : phoneOf(world, account, body.recipient);
    if (to === null)
      throw graphFault(400, 131009, "Parameter value is not valid", "the recipient is not valid");
    const { text, template, biz_opaque_callback_data: reference } = body;
    const content = {
      text: text?.body,
      template: template && findTemplate(world, account, template),
    };
    return messaging.send(
      account,
      { to, phoneNumberId, failsLater: true, reference, ...content },
      "api",
    );
  };
  void app.register(async (scope) => {
    addGate(scope, { ...service, random: service.random.fork("graph") }, asGraphFault);
    scope.setErrorHandler((error, _request, reply) => {
      const { status, body } = asGraphFault(answerTo(error, failed));
      return reply.code(status).send(body);
    });
    scope.post<{ Params: { phoneNumberId: string } }>(graphMessages, async (request, reply) => {
      const account = callerOf(request);
      const { phoneNumberId } = request.params;
      if (!account.numbers.some((number) => number.phoneNumberId === phoneNumberId)) {
        throw graphFault(
          400,
          100,
          `Unsupported post request. Object with ID '${phoneNumberId}' does not exist`,
        );
      }
      const read = graphBodySchema.safeParse(request.body);
      if (!read.success) throw graphFault(400, 100, "Invalid parameter", problemLines(read.error));
      if (read.data.status === "read") return { success: true };
      const message = send(account.id, phoneNumberId, read.data);
      await events.meta?.answerAfter(message);
      const { to, recipient, template } = read.data;
      const who =
        recipient === undefined
          ? { input: to, wa_id: waIdOf(message.phone) }
          : { input: recipient, user_id: recipient };
      const sent = { id: message.wamid, message_status: template && "accepted" };
      return reply.send({ messaging_product: "whatsapp", contacts: [who], messages: [sent] });
    });
  });
}

function phoneOf(world: World, account: string, userId: string): string | null {
  return (
    world.contacts.list(account).find(({ phone }) => userIdOf(phone) === userId)?.phone ?? null
  );
}

/** Parameters have names, or the order of the template's variables. */
function findTemplate(
  world: World,
  account: string,
  { name, language, components }: NonNullable<GraphSend["template"]>,
) {
  const found = approvedTemplates(world, account).find(
    (one) => one.metaName === name && one.language === language.code,
  );
  if (found === undefined)
    throw graphFault(404, 132001, "Template name does not exist in the translation");
  const parameters = components
    .filter(({ type }) => type.toLowerCase() === "body")
    .flatMap((one) => one.parameters);
  const given = parameters.map(({ parameter_name: own, text = "" }, place) => [
    own ?? found.variables[place]?.name ?? String(place + 1),
    text,
  ]);
  return { id: found.id, variables: Object.fromEntries(given) as Record<string, string> };
}

const parameter = z.object({
  type: z.string(),
  text: z.string().optional(),
  parameter_name: z.string().optional(),
});
const component = z.object({ type: z.string(), parameters: z.array(parameter).default([]) });

const graphBodySchema = z
  .object({
    messaging_product: z.literal("whatsapp"),
    status: z.literal("read").optional(),
    message_id: z.string().optional(),
    to: z.string().max(32).optional(),
    recipient: z.string().max(160).optional(),
    text: z.object({ body: z.string().min(1).max(4096) }).optional(),
    template: z
      .object({
        name: z.string(),
        language: z.object({ code: z.string() }),
        components: z.array(component).default([]),
      })
      .optional(),
    biz_opaque_callback_data: z.string().max(512).optional(),
  })
  .refine(
    ({ status, message_id: id }) => status === undefined || id !== undefined,
    "message_id is missing",
  )
  .refine(
    ({ status, to, recipient }) =>
      status !== undefined || to !== undefined || recipient !== undefined,
    "to is missing",
  )
  .refine(
    ({ status, text, template }) =>
      status !== undefined || (text === undefined) !== (template === undefined),
    "one of text and template is required",
  );
type GraphSend = z.output<typeof graphBodySchema>;

function graphFault(status: number, code: number, title: string, details = title): ApiFault {
  const trace = hash("sha256", `${code} ${details}`, "base64url").slice(0, 22);
  const data = { messaging_product: "whatsapp", details };
  const error = {
    message: `(#${code}) ${title}`,
    type: "OAuthException",
    code,
    error_data: data,
    fbtrace_id: trace,
  };
  return new ApiFault(status, { error });
}

type GraphCode = readonly [status: number, code: number, title: string];
/** For the service's own, by status; other 4xx are an invalid parameter. */
const graphCodes: Readonly<Record<number, GraphCode>> = {
  401: [401, 190, "Invalid OAuth access token."],
  402: [403, 10, "Permission denied"],
  404: [404, 132001, "Template name does not exist in the translation"],
  429: [429, 130429, "Rate limit hit"],
};

function asGraphFault(fault: ApiFault): ApiFault {
  const { status, body, message } = fault;
  if (typeof body.error === "object" && "code" in body.error) return fault;
  // The provider's code is in the text.
  const code = Number(/\((\d{6})\)/.exec(message)?.[1]);
  if (code === 131016) return graphFault(503, code, "Service unavailable", message);
  if (!Number.isNaN(code))
    return graphFault(400, code, "Business eligibility payment issue", message);
  const other: GraphCode =
    status < 500 ? [400, 100, "Invalid parameter"] : [500, 131000, "Something went wrong"];
  return graphFault(...(graphCodes[status] ?? other), message);
}
