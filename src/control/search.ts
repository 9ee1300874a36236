import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { searchSchema } from "../model/search.ts";
import { toAnswer, type View } from "../model/view.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import { lookUp } from "./guesses.ts";

/** What a text can name, best first. `wholeOnly`: not by a part of a name. */
export type SearchPort = (text: string, wholeOnly: boolean) => Promise<View<typeof searchSchema>>;

const search = {
  method: "GET",
  path: "/v1/search",
  name: "search",
  scope: "read",
  summary: "What a text can name: messages, runs, events and deliveries",
  description: "For a search box. `q` of `GET /v1/messages`, `/v1/runs` and `/v1/events` finds all rows, page by page.",
  query: z.strictObject({
    q: z
      .string()
      .trim()
      .min(1)
      .max(1024)
      .describe(
        "An id, masked or not, a seq, the beginning of a reference, or the last digits of a phone number, at least four. Without `pii`: whole names.",
      ),
  }),
  answers: { 200: { text: "At most 20 hits.", schema: searchSchema } },
  errors: ["too_many_guesses"],
} as const;

/** `GET /v1/search`. */
export function addSearchRoute(app: FastifyInstance, find: SearchPort, allow: Allow): void {
  addEndpoint(app, allow, search, async ({ query: { q }, request }) => {
    const found = await lookUp(
      request,
      { names: [q] },
      (wholeOnly) => find(q, wholeOnly),
      ({ data }) => data.length > 0,
    );
    return toAnswer(searchSchema, found);
  });
}
