import { z } from "zod";

/** A time: ISO 8601 in UTC. */
export const time = z.stringFormat("date-time", (text) => !Number.isNaN(Date.parse(text)));

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
          : z.infer<Schema>;
type ViewOfShape<Shape> = { readonly [Key in keyof Shape as Shape[Key] extends z.ZodExactOptional ? never : Key]: View<Shape[Key]> } & {
  readonly [Key in keyof Shape as Shape[Key] extends z.ZodExactOptional ? Key : never]?: Shape[Key] extends z.ZodExactOptional<infer Inner>
    ? View<Inner>
    : never;
};

/** The answer for a view. Fields that the schema does not have are left out. */
export function toAnswer<Schema extends z.ZodType>(schema: Schema, view: View<Schema>): z.infer<Schema> {
  return writerOf(schema)(view) as z.infer<Schema>;
}

type Write = (value: unknown) => unknown;
const asItIs: Write = (value) => value;
const writeTime: Write = (ms) => new Date(ms as number).toISOString();
const writers = new WeakMap<z.core.$ZodType, Write>();

/** Made once for each schema: looking into the schema for each of a thousand rows takes a tenth of a second. */
function writerOf(schema: z.core.$ZodType): Write {
  const known = writers.get(schema);
  if (known !== undefined) return known;
  const write = createWriter(schema);
  writers.set(schema, write);
  return write;
}

function createWriter(schema: z.core.$ZodType): Write {
  // Also copies of it, with a description.
  if (schema instanceof z.ZodCustomStringFormat && schema.format === time.format) return writeTime;
  if (schema instanceof z.ZodObject) {
    const fields = Object.entries(schema.shape).map(([key, field]) => [key, writerOf(field)] as const);
    return (value) => {
      const answer: Record<string, unknown> = {};
      for (const [key, write] of fields) if (Object.hasOwn(value as object, key)) answer[key] = write((value as typeof answer)[key]);
      return answer;
    };
  }
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodExactOptional) {
    const write = writerOf(schema.unwrap());
    return write === asItIs ? asItIs : (value) => (value === null ? null : write(value));
  }
  if (schema instanceof z.ZodArray) {
    const write = writerOf(schema.element);
    return write === asItIs ? asItIs : (value) => (value as unknown[]).map((item) => write(item));
  }
  if (schema instanceof z.ZodRecord) {
    const write = writerOf(schema.valueType);
    return write === asItIs
      ? asItIs
      : (value) => Object.fromEntries(Object.entries(value as object).map(([key, item]) => [key, write(item)]));
  }
  return asItIs;
}
