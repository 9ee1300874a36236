import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { type MessageView, messagePageSchema, messageSchema, runPageSchema } from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { toAnswer, type View } from "../model/view.ts";
import { type Allow, accountQuery, addEndpoint, listBefore, listLimit, phoneEnd, time } from "./endpoint.ts";
import { lookUp } from "./guesses.ts";

/** Reads tracked messages and runs. Times in views are unix ms. `wholeOnly`: by whole names, not by a part of one. */
export interface TrackedReading {
  /** Registered ones, newest first. */
  listMessages(filter: z.infer<typeof messageQuery>, wholeOnly: boolean): Promise<View<typeof messagePageSchema>>;
  /** By wamid, else by the service's message id, else by reference. */
  findMessages(name: string): MaybePromise<readonly MessageView[]>;
  /** Newest first. */
  listRuns(filter: z.infer<typeof runQuery>, wholeOnly: boolean): Promise<View<typeof runPageSchema>>;
}

const trackedQuery = {
  account: z.string().optional().describe("Only of this account."),
  status: z.string().optional().describe("Only with this current status."),
  reference: z.string().optional().describe("Only with this reference."),
  before: listBefore,
  limit: listLimit,
};
const messageQuery = z.strictObject({
  ...trackedQuery,
  q: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Only with this wamid or service's id, masked or not, with a reference that begins so, or a phone number that ends so. Without `pii`: whole names.",
    ),
  errorCode: z.string().optional().describe("Only with this error code."),
  from: time.optional().describe("Changed at or after this time."),
  to: time.optional().describe("Changed before this time."),
  phone: phoneEnd
    .optional()
    .describe("Only with a phone number in the wamid that ends with these digits, at least four. Without `pii`: exactly this number."),
});
const runQuery = z.strictObject({
  ...trackedQuery,
  runId: z.string().optional().describe("Only this run; its id may be masked."),
  q: z
    .string()
    .min(1)
    .optional()
    .describe("Only with this run id, masked or not, or with a reference that begins so. Without `pii`: whole names."),
});

const messages = {
  method: "GET",
  path: "/v1/messages",
  name: "listMessages",
  scope: "read",
  summary: "Registered messages with their status",
  description: "With `q` or `phone` also messages that were only seen.",
  query: messageQuery,
  answers: { 200: { text: "The messages that meet every condition.", schema: messagePageSchema } },
  errors: ["too_many_guesses"],
} as const;

const message = {
  method: "GET",
  path: "/v1/messages/:wamid",
  name: "getMessage",
  scope: "read",
  summary: "One message with its status, registered or only seen",
  description: "When several messages have the name, `bad_request` lists them.",
  params: z.strictObject({ wamid: z.string().describe("Its wamid, else the service's id, else its reference.") }),
  query: accountQuery,
  answers: { 200: { text: "The message.", schema: messageSchema } },
  errors: ["not_found", "too_many_guesses"],
} as const;

const runs = {
  method: "GET",
  path: "/v1/runs",
  name: "listRuns",
  scope: "read",
  summary: "Automation runs with their status",
  query: runQuery,
  answers: { 200: { text: "The runs that meet every condition.", schema: runPageSchema } },
  errors: ["too_many_guesses"],
} as const;

/** `GET /v1/messages`, `GET /v1/messages/{wamid}` and `GET /v1/runs`. */
export function addTrackedRoutes(app: FastifyInstance, port: TrackedReading, allow: Allow): void {
  addEndpoint(app, allow, messages, async ({ query, request }) => {
    const { phone, q, reference } = query;
    const find = (wholeOnly: boolean) => port.listMessages(query, wholeOnly);
    return toAnswer(messagePageSchema, await lookUp(request, { phone, names: [q, reference] }, find, isSome));
  });

  addEndpoint(app, allow, message, async ({ params: { wamid }, query: { account }, request }) => {
    const names = [wamid];
    const found = await lookUp(
      request,
      { names },
      () => port.findMessages(wamid),
      ({ length }) => length > 0,
    );
    const [message, ...others] = found.filter((each) => account === undefined || each.account === account);
    if (message === undefined) throw new RelayError("not_found", "no such message");
    if (others.length === 0) return toAnswer(messageSchema, message);
    throw new RelayError(
      "bad_request",
      "several messages have this; ask by wamid, with account= where two accounts have it",
      [message, ...others].map(({ account: of, wamid }) => ({ account: of, wamid })),
    );
  });

  addEndpoint(app, allow, runs, async ({ query, request }) => {
    const { q, reference, runId } = query;
    const find = (wholeOnly: boolean) => port.listRuns(query, wholeOnly);
    return toAnswer(runPageSchema, await lookUp(request, { names: [q, reference, runId] }, find, isSome));
  });
}

const isSome = ({ data }: { readonly data: readonly unknown[] }): boolean => data.length > 0;
