import { createParser, type EventSourceMessage } from "eventsource-parser";
import { z } from "zod";
import { listenedEventSchema } from "../../model/listen.ts";

const helloSchema = z.looseObject({
  relay: z.string(),
  after: z.number().int(),
  newest: z.number().int(),
  reset: z.boolean(),
  keptFrom: z.string().nullable(),
});
const eventSchema = listenedEventSchema.extend({ body: listenedEventSchema.shape.body.transform((text) => Buffer.from(text, "base64")) });
const gapSchema = z.looseObject({ from: z.number().int(), to: z.number().int(), count: z.number().int() });
const placeSchema = z.looseObject({ seq: z.number().int(), newest: z.number().int() });

const byeSchema = z.object({ reason: z.string() });

export type Hello = z.infer<typeof helloSchema>;
export type ListenedEvent = z.infer<typeof eventSchema>;
export type Gap = z.infer<typeof gapSchema>;
export type Place = z.infer<typeof placeSchema>;

type StreamMessage =
  | ({ readonly kind: "hello" } & Hello)
  | { readonly kind: "event"; readonly event: ListenedEvent }
  | ({ readonly kind: "gap" } & Gap)
  | ({ readonly kind: "at" } & Place)
  | { readonly kind: "bye"; readonly reason: string }
  /** Of a later version, and nothing to this one. */
  | { readonly kind: "other" };

/** Parses a message of `GET /v1/listen` (docs/how-to/develop-with-production-events.md). Throws when it is not one. */
function parseMessage({ event, data }: EventSourceMessage): StreamMessage {
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
    throw new Error("the stream is not that of a wamid-relay");
  }
}

/** An event's body is at most 64 MiB (`server.bodyLimit`), a third more as base64. */
const longestMessage = 100 * 1024 * 1024;

/** Reads a stream of bytes: each call gives the messages that are complete with this chunk. Throws for a stream that is not a relay's. */
export function createStreamReader(longest = longestMessage): (chunk: Uint8Array) => Iterable<StreamMessage> {
  const decoder = new TextDecoder();
  const complete: EventSourceMessage[] = [];
  const parser = createParser({
    maxBufferSize: longest,
    onEvent: (message) => complete.push(message),
    onError(error) {
      if (error.type === "max-buffer-size-exceeded") throw new Error("a message of the stream is too long");
    },
  });
  return function* (chunk) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    for (const message of complete.splice(0)) yield parseMessage(message);
  };
}
