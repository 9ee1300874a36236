import { z } from "zod";
import { RelayError } from "../event/errors.ts";
import type { Soon } from "../event/soon.ts";
import { durationSchema } from "../event/units.ts";
import type { ListenFilter, ListenPort } from "./listen-port.ts";

const seq = z.coerce.number().int().min(0);
const flag = z.enum(["true", "false"]).transform((text) => text === "true");
const words = z
  .union([z.string(), z.array(z.string())])
  .transform((given) => (Array.isArray(given) ? given : [given]).flatMap((text) => text.split(",")).map((text) => text.trim()))
  .refine((list) => list.every((word) => word !== ""), "has an empty word")
  .refine((list) => list.length <= 100, "has more than 100 words");

/** The name of somebody who listens. */
export const listenerName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "is not a name (letters, digits, . _ -, at most 64)");

export const listenQuery = z.strictObject({
  source: words.optional().describe("Only of these; several with commas between."),
  events: words.optional().describe("Only of these kinds, with `*` as in routes; several with commas between."),
  status: words.optional().describe("Only with these; several with commas between."),
  tracked: flag.optional().describe("Only of messages and runs that are registered now, or only of others."),
  where: z.string().optional().describe("JSON: a condition on `data`, as in routes."),
  since: z
    .union([durationSchema, z.iso.datetime({ offset: true }).transform((text) => new Date(text))], {
      error: "must be a duration (like 2h) or a time with its zone",
    })
    .optional()
    .describe("Begin with what was received since: so long ago, or then."),
  latest: flag.optional().describe("Begin now, whatever the cursor says."),
  after: seq.optional().describe("Begin after this seq."),
  as: listenerName.optional().describe("Begin where this name's cursor stands; when there is none, now, and it is made."),
});
export type ListenQuery = z.infer<typeof listenQuery>;

export const cursorBody = z.strictObject({ seq: z.number().int().min(0) });

export function filterOf({ source, events, status, tracked, where }: ListenQuery): ListenFilter {
  return { sources: source, events, statuses: status, tracked, ...(where === undefined ? {} : { where: parseJson(where) }) };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new RelayError("bad_request", "where: is not valid JSON", [{ path: "where", message: "is not valid JSON" }]);
  }
}

export interface Start {
  readonly after: number;
  /** True when whoever asks has heard of events that this store does not have: it is another one, or an older copy. */
  readonly reset: boolean;
}

/** Where somebody begins: after the last event heard, else `after`, `since`, `latest`, where the cursor stands, now. */
export async function startOf(query: ListenQuery, lastEventId: string | undefined, port: ListenPort): Promise<Start> {
  const { newest } = await port.ends();
  const known = await resumeAt(query, lastEventId, port);
  if (known === null) return { after: newest, reset: false };
  return known > newest ? { after: newest, reset: true } : { after: known, reset: false };
}

function resumeAt({ after, since, latest, as }: ListenQuery, lastEventId: string | undefined, port: ListenPort): Soon<number | null> {
  if (lastEventId) return Number(lastEventId);
  if (after !== undefined) return after;
  if (since !== undefined) return port.seqBefore(typeof since === "number" ? port.now() - since : since.getTime());
  if (latest === true || as === undefined) return null;
  return port.cursor(as);
}
