import { z } from "zod";
import { isCanonicalUuid } from "./ids.ts";
import {
  answeredDeliveryId,
  answeredId,
  type Known,
  maskBody,
  maskText,
  maskValue,
  maskWamid,
  maskWord,
  maskWritten,
  shownKind,
} from "./mask.ts";

/** A time: ISO 8601 in UTC. */
export const time = z.stringFormat("date-time", (text) => !Number.isNaN(Date.parse(text)));

/** An object that has the name `id` in `/v1/openapi.json`. */
export const component = <Shape extends z.ZodRawShape>(
  id: string,
  description: string,
  shape: Shape,
) => z.object(shape).meta({ id, description });

/** What the ports pass for an answer: the same fields, with times in unix ms. */
export type View<Schema> = Schema extends typeof time
  ? number
  : Schema extends z.ZodNullable<infer Inner>
    ? View<Inner> | null
    : Schema extends z.ZodArray<infer Item>
      ? readonly View<Item>[]
      : Schema extends z.ZodRecord<infer Key, infer Value>
        ? Readonly<Record<z.infer<Key>, View<Value>>>
        : Schema extends z.ZodObject<infer Shape>
          ? ViewOfShape<Shape>
          : Schema extends z.ZodUnion<infer Options>
            ? View<Options[number]>
            : z.infer<Schema>;
type ViewOfShape<Shape> = {
  readonly [Key in keyof Shape as Shape[Key] extends z.ZodExactOptional ? never : Key]: View<
    Shape[Key]
  >;
} & {
  readonly [Key in keyof Shape as Shape[Key] extends z.ZodExactOptional
    ? Key
    : never]?: Shape[Key] extends z.ZodExactOptional<infer Inner> ? View<Inner> : never;
};

/** The answer for a view. Fields that the schema does not have are left out. */
export function toAnswer<Schema extends z.ZodType>(
  schema: Schema,
  view: View<Schema>,
): z.infer<Schema> {
  return answers(schema)(view, undefined, null) as z.infer<Schema>;
}

type Mask = (text: string, owner: unknown, known: Known | null) => unknown;
const masks = {
  wamid: maskWamid,
  message: (text) => answeredId("message", text),
  run: (text) => answeredId("run", text),
  event: (text) => answeredId("event", text),
  delivery: answeredDeliveryId,
  kind: shownKind,
  word: maskWord,
  /** As {@link maskText} writes it, also where the number is short. */
  phone: () => "[phone]",
  /** As {@link answeredId} shows ids: one random UUID in ten has digits like those of a phone. */
  text: (text, _, known) => (isCanonicalUuid(text) ? text : maskText(text, known)),
  /** Lists, which read no bodies, show it although Meta's events repeat it. */
  reference: (text, owner): unknown => masks.text(text, owner, null),
  /** A stream answers with the id of its entry, whose digits are a time. */
  response(text, owner, known) {
    const { status, error } = owner as { status: number | null; error: string | null };
    return status === null && error === null && /^\d+-\d+$/.test(text)
      ? text
      : maskText(text, known);
  },
  json: (value: unknown, owner, known) => maskValue(value, wamidOf(owner), known),
  metadata: (value: unknown, owner) => maskWritten(value, wamidOf(owner)),
  subject: (subject: unknown) => {
    const { type, key, ...rest } = subject as { type: string; key: string };
    return { type, key: type === "message" ? maskWamid(key) : answeredId("run", key), ...rest };
  },
  /** The id of what `kind` beside it says. A body in quarantine has its seq for an id. */
  hit(text, owner, known): unknown {
    const { kind, seq } = owner as {
      kind: "message" | "run" | "event" | "delivery";
      seq: number | null;
    };
    const mask: Mask = masks[kind === "message" ? "wamid" : kind];
    return text === String(seq) ? text : mask(text, owner, known);
  },
  body: (text, owner) => maskBody(text, wamidOf(owner)),
  bytes: (bytes, owner) =>
    Buffer.from(maskBody(Buffer.from(bytes, "base64").toString("utf8"), wamidOf(owner))).toString(
      "base64",
    ),
} satisfies Record<string, Mask>;
type Personal = keyof typeof masks;

/**
 * Where `x-pii` of a field's metadata says how the field is masked. The OpenAPI document shows it.
 */
const mark = "x-pii";

/** Marks a field that can identify a person. Callers without the scope `pii` read it masked. */
export function pii<Schema extends z.ZodType>(kind: Personal, schema: Schema): Schema {
  return schema.meta({ [mark]: kind });
}

/**
 * Text that may hold a wamid or phone number, because the service, a destination or an application
 * wrote it.
 */
export const foreign = pii("text", z.string());

export function piiOf(schema: z.core.$ZodType): Personal | undefined {
  return z.globalRegistry.get(schema)?.[mark] as Personal | undefined;
}

/**
 * The wamid that an object is about: it need not look like one, so that masks of texts would miss
 * it.
 */
function wamidOf(owner: unknown): string | null {
  const { wamid, subject } = (owner ?? {}) as {
    wamid?: unknown;
    subject?: { type?: unknown; key?: unknown } | null;
  };
  if (typeof wamid === "string") return wamid;
  return subject?.type === "message" && typeof subject.key === "string" ? subject.key : null;
}

/** The same answer with every marked field masked. `known`: what its texts may say of people. */
export function maskAnswer<Schema extends z.ZodType>(
  schema: Schema,
  answer: z.infer<Schema>,
  known: Known | null = null,
): z.infer<Schema> {
  return masked(schema)(answer, undefined, known) as z.infer<Schema>;
}

export function holdsPii(schema: z.core.$ZodType): boolean {
  return masked(schema) !== asItIs;
}

/** `owner`: the object that has the value as a field. `known`: what is masked in texts, too. */
type Write = (value: unknown, owner: unknown, known: Known | null) => unknown;
type Writer = (schema: z.core.$ZodType) => Write;
const asItIs: Write = (value) => value;

const unlessNull = (write: Write): Write =>
  write === asItIs
    ? asItIs
    : (value, owner, known) =>
        value === null || value === undefined ? value : write(value, owner, known);

const isoTime: Write = (ms) => new Date(ms as number).toISOString();
const answers = createWriters((schema) => (schema === time ? isoTime : undefined), "pick");
const masked = createWriters((schema) => {
  const kind = piiOf(schema);
  return kind && unlessNull(masks[kind] as Write);
}, "keep");

/**
 * A writer for each schema, made once: looking into the schema for each of a thousand rows takes a
 * tenth of a second. `own` is the writer of a field itself. `others`: what happens to fields that
 * the schema does not have.
 */
function createWriters(
  own: (schema: z.core.$ZodType) => Write | undefined,
  others: "pick" | "keep",
): Writer {
  const writers = new WeakMap<z.core.$ZodType, Write>();

  return function writerOf(schema) {
    const known = writers.get(schema);
    if (known !== undefined) return known;
    const write = own(schema) ?? within(schema, writerOf, others);
    writers.set(schema, write);
    return write;
  };
}

function within(schema: z.core.$ZodType, writerOf: Writer, others: "pick" | "keep"): Write {
  // Of a schema with a description, the one without. Only that one is a time.
  const { parent } = schema._zod;
  if (parent !== undefined) return writerOf(parent);
  if (schema instanceof z.ZodObject) {
    const fields = Object.entries(schema.shape).map(
      ([key, field]) => [key, writerOf(field as z.core.$ZodType)] as const,
    );
    const written = others === "pick" ? fields : fields.filter(([, write]) => write !== asItIs);
    if (others === "keep" && written.length === 0) return asItIs;
    return (value, _, known) => {
      const from = value as Record<string, unknown>;
      const answer: Record<string, unknown> = others === "pick" ? {} : { ...from };
      for (const [key, write] of written)
        if (Object.hasOwn(from, key)) answer[key] = write(from[key], from, known);
      return answer;
    };
  }
  if (
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodExactOptional ||
    schema instanceof z.ZodOptional
  ) {
    return unlessNull(writerOf(schema.unwrap()));
  }
  if (schema instanceof z.ZodArray) {
    const write = writerOf(schema.element);
    return write === asItIs
      ? asItIs
      : (value, owner, known) => (value as unknown[]).map((item) => write(item, owner, known));
  }
  if (schema instanceof z.ZodRecord) {
    const [writeKey, write] = [writerOf(schema.keyType), writerOf(schema.valueType)];
    if (write === asItIs && writeKey === asItIs) return asItIs;
    return (value, owner, known) =>
      Object.fromEntries(
        Object.entries(value as object).map(([key, item]) => [
          writeKey(key, owner, known) as string,
          write(item, owner, known),
        ]),
      );
  }
  if (schema instanceof z.ZodUnion) {
    const options = schema.options.map(
      (option) => [option as z.ZodType, writerOf(option)] as const,
    );
    if (options.every(([, write]) => write === asItIs)) return asItIs;
    // A view has times in unix ms, which no option accepts: its fields select the option.
    const isOf = (option: z.ZodType, value: unknown): boolean =>
      others === "keep"
        ? option.safeParse(value).success
        : option instanceof z.ZodObject && hasFields(option, value);
    return (value, owner, known) =>
      (options.find(([option]) => isOf(option, value)) ?? options[0])?.[1](value, owner, known);
  }
  return asItIs;
}

function hasFields({ shape }: z.ZodObject, value: unknown): boolean {
  return Object.entries(shape).every(
    ([key, field]) => field instanceof z.ZodExactOptional || Object.hasOwn(value as object, key),
  );
}
