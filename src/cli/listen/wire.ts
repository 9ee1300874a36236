import { z } from "zod";
import type { SseMessage } from "./sse-parser.ts";

const helloSchema = z.looseObject({
  relay: z.string(),
  after: z.number().int(),
  newest: z.number().int(),
  reset: z.boolean(),
  keptFrom: z.string().nullable(),
});
const eventSchema = z.looseObject({
  seq: z.number().int(),
  id: z.string(),
  event: z.string(),
  source: z.string(),
  account: z.string(),
  origin: z.string(),
  receivedAt: z.string(),
  disposition: z.string(),
  status: z.string().nullable(),
  subject: z.object({ type: z.string(), key: z.string() }).nullable(),
  tracked: z.boolean(),
  headers: z.record(z.string(), z.string()),
  body: z.base64().transform((text) => Buffer.from(text, "base64")),
});
const gapSchema = z.looseObject({ from: z.number().int(), to: z.number().int(), count: z.number().int() });
const placeSchema = z.looseObject({ seq: z.number().int(), newest: z.number().int() });

const byeSchema = z.object({ reason: z.string() });

export type Hello = z.infer<typeof helloSchema>;
export type ListenedEvent = z.infer<typeof eventSchema>;
export type Gap = z.infer<typeof gapSchema>;
export type Place = z.infer<typeof placeSchema>;

type Said =
  | ({ readonly kind: "hello" } & Hello)
  | { readonly kind: "event"; readonly event: ListenedEvent }
  | ({ readonly kind: "gap" } & Gap)
  | ({ readonly kind: "at" } & Place)
  | { readonly kind: "bye"; readonly reason: string }
  /** Of a later version, and nothing to this one. */
  | { readonly kind: "other" };

/** Reads what a relay says (docs/listen.md). Throws when it is none of a relay's. */
export function readSaid({ event, data }: SseMessage): Said {
  if (event === "hello") return { kind: "hello", ...read(helloSchema, data) };
  if (event === "event") return { kind: "event", event: read(eventSchema, data) };
  if (event === "gap") return { kind: "gap", ...read(gapSchema, data) };
  if (event === "at") return { kind: "at", ...read(placeSchema, data) };
  if (event === "bye") return { kind: "bye", ...read(byeSchema, data) };
  return { kind: "other" };
}

function read<T extends z.ZodType>(schema: T, data: string): z.infer<T> {
  try {
    return schema.parse(JSON.parse(data));
  } catch {
    throw new Error("what came is nothing that a wamid-relay says");
  }
}
