import { z } from "zod";
import { ApiFault } from "../api/fault.ts";

/** What `/sandbox` itself refuses: `{error}` in English. What the service would refuse is an ApiFault. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: 400 | 404 | 409;

  constructor(status: 400 | 404 | 409, error: string) {
    super(error);
    this.status = status;
  }
}

/** The record, or 404 with its name. */
export function found<T>(record: T | undefined, what: string): T {
  if (record === undefined) throw new Refusal(404, `there is no ${what}`);
  return record;
}

/** The value as the schema says; 400 with every problem and its place. */
export function read<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value ?? {});
  if (result.success) return result.data;
  const problems = result.error.issues.map(({ path, message }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`));
  throw new Refusal(400, problems.join("; "));
}

/** Status, body and headers for anything thrown in a `/sandbox` route; null for unforeseen errors. */
export function answerOf(error: unknown): { status: number; body: object; headers: Readonly<Record<string, string>> } | null {
  if (error instanceof Refusal) return { status: error.status, body: { error: error.message }, headers: {} };
  if (error instanceof ApiFault) return error;
  // Fastify's own: a body that is no JSON, or too large.
  const { statusCode, message } = error as { statusCode?: number; message?: string };
  if (typeof statusCode === "number" && statusCode < 500) return { status: statusCode, body: { error: message }, headers: {} };
  return null;
}

/** Numbers in a query string. */
export const wholeNumber = (most: number) => z.coerce.number().int().min(0).max(most);
