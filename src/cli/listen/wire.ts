import { z } from "zod";
import { RelayClientError } from "../../client/connection.ts";
import { lost, type StreamMessage } from "../../client/follow.ts";
import { listenedEventSchema } from "../../model/endpoints/stream.ts";

const schemas = {
  hello: z.looseObject({
    relay: z.string(),
    after: z.number().int(),
    newest: z.number().int(),
    reset: z.boolean(),
    keptFrom: z.string().nullable(),
  }),
  event: listenedEventSchema.extend({
    body: listenedEventSchema.shape.body.transform((text) => Buffer.from(text, "base64")),
  }),
  gap: z.looseObject({ from: z.number().int(), to: z.number().int(), count: z.number().int() }),
  /** Everything up to `seq` is done with, or not wanted. */
  at: z.looseObject({ seq: z.number().int(), newest: z.number().int() }),
  bye: z.object({ reason: z.string() }),
};
type Kind = keyof typeof schemas;

export type Hello = z.infer<typeof schemas.hello>;
export type ListenedEvent = z.infer<typeof schemas.event>;
export type Gap = z.infer<typeof schemas.gap>;

type Listened = {
  readonly [K in Exclude<Kind, "bye">]: {
    readonly kind: K;
    readonly data: z.infer<(typeof schemas)[K]>;
  };
}[Exclude<Kind, "bye">];

/**
 * Parses the messages of one `GET /v1/listen` (docs/how-to/develop-with-production-events.md).
 * Null: of a later version. Throws for what is not a relay's, and for its end.
 */
export function readListened({ event = "", data }: StreamMessage): Listened | null {
  if (!Object.hasOwn(schemas, event)) {
    // A relay names each of its messages.
    if (event === "") throw notOfRelay();
    return null;
  }
  const kind = event as Kind;
  const message = parsed(kind, data);
  if (kind === "bye") throw lost((message as { reason: string }).reason);
  return { kind, data: message } as Listened;
}

function parsed(kind: Kind, data: string): unknown {
  try {
    return schemas[kind].parse(JSON.parse(data));
  } catch {
    throw notOfRelay();
  }
}

function notOfRelay(): RelayClientError {
  return new RelayClientError("the stream is not that of a wamid-relay", {
    status: 200,
    code: "bad_answer",
  });
}
