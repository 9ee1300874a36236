import { z } from "zod";

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

type StreamMessage =
  | ({ readonly kind: "hello" } & Hello)
  | { readonly kind: "event"; readonly event: ListenedEvent }
  | ({ readonly kind: "gap" } & Gap)
  | ({ readonly kind: "at" } & Place)
  | { readonly kind: "bye"; readonly reason: string }
  /** Of a later version, and nothing to this one. */
  | { readonly kind: "other" };

/** Parses a message of `GET /v1/listen` (docs/listen.md). Throws when it is not one. */
export function parseMessage({ event, data }: SseMessage): StreamMessage {
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

/** One message of a stream of server-sent events. */
export interface SseMessage {
  readonly event: string;
  readonly data: string;
  /** Null when the message has none of its own. */
  readonly id: string | null;
}

interface SseParser {
  /** The messages that are complete with this chunk, wherever the stream was cut. Throws when one is too long to be ours. */
  push(chunk: Uint8Array): SseMessage[];
}

/** An event's body is at most 64 MiB (`server.bodyLimit`), a third more as base64. */
const longestMessage = 100 * 1024 * 1024;

/** Reads `text/event-stream` (HTML standard, 9.2.6), but for `retry`, which the caller has a rule of its own for. */
export function createSseParser(longest = longestMessage): SseParser {
  const decoder = new TextDecoder();
  /** Pieces of a line whose end has not come: joined once, so that a dripping line costs no more than another. */
  let pieces: string[] = [];
  let afterReturn = false;
  let length = 0;
  let event = "";
  let data: string[] = [];
  let id: string | null = null;

  function line(text: string, done: SseMessage[]): void {
    if (text === "") {
      if (data.length > 0) done.push({ event: event === "" ? "message" : event, data: data.join("\n"), id });
      event = "";
      data = [];
      id = null;
      length = 0;
      return;
    }
    const colon = text.indexOf(":");
    if (colon === 0) return;
    const field = colon === -1 ? text : text.slice(0, colon);
    const value = colon === -1 ? "" : text.slice(text[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
    else if (field === "id" && !value.includes("\0")) id = value;
  }

  return {
    push(chunk) {
      const done: SseMessage[] = [];
      let text = decoder.decode(chunk, { stream: true });
      if (afterReturn && text !== "") {
        if (text.startsWith("\n")) text = text.slice(1);
        afterReturn = false;
      }
      let from = 0;
      for (const { index, 0: end } of text.matchAll(/\r\n|\n|\r/g)) {
        pieces.push(text.slice(from, index));
        const whole = pieces.length === 1 ? (pieces[0] as string) : pieces.join("");
        pieces = [];
        length += index - from;
        from = index + end.length;
        // The \n of this \r may be the next chunk's first character.
        if (end === "\r" && from === text.length) afterReturn = true;
        line(whole, done);
      }
      if (from < text.length) pieces.push(text.slice(from));
      length += text.length - from;
      if (length > longest) throw new Error("a message of the stream is too long");
      return done;
    },
  };
}
