import { z } from "zod";
import { RelayError } from "../event/errors.ts";
import { dispositions } from "../event/plan.ts";

export const time = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));
export const listLimit = z.coerce.number().int().min(1).max(1000).default(50);

export const eventQuery = z.strictObject({
  event: z.string().optional(),
  source: z.string().optional(),
  account: z.string().optional(),
  status: z.string().optional(),
  disposition: z.enum(dispositions).optional(),
  wamid: z.string().optional(),
  from: time.optional(),
  to: time.optional(),
  before: z.coerce.number().int().min(1).optional(),
  limit: listLimit,
});

export const eventIdQuery = z.strictObject({ account: z.string().optional() });

export const deliveryQuery = z.strictObject({
  route: z.string().optional(),
  state: z.enum(["waiting", "held", "delivered", "dead"]).optional(),
  before: z
    .string()
    .regex(/^\d{1,15}\.\d{1,15}$/, "is not the next of a page before")
    .optional(),
  limit: listLimit,
});

export const replayBody = z.strictObject({
  route: z.string().optional(),
  disposition: z.enum(["forwarded", "filtered", "ignored"]).optional(),
  /** `dead` alone by default: what was delivered goes out again only when asked for. */
  states: z
    .array(z.enum(["delivered", "dead"]))
    .min(1)
    .default(["dead"]),
  errorCode: z.string().optional(),
  from: time.optional(),
  to: time.optional(),
  /** Only count. */
  dryRun: z.boolean().default(false),
  /** `next` of the answer before, with the same filter. */
  cursor: z
    .string()
    .regex(/^\d{1,15}\.\d{1,15}\.\d{1,15}$/, "is not the next of an answer before")
    .nullable()
    .default(null),
  /** Most deliveries of one call. None by default: as many as go within its time. */
  limit: z.number().int().min(1).default(Number.MAX_SAFE_INTEGER),
});

/** Parses or throws `bad_request`, whose details say where and why. */
export function parse<T extends z.ZodType>(schema: T, value: unknown): z.infer<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw badRequest(parsed.error);
}

export function badRequest({ issues }: z.ZodError): RelayError {
  const details = issues.map((issue) => ({ path: issue.path.map(String).join("."), message: issue.message }));
  return new RelayError(
    "bad_request",
    details.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; "),
    details,
  );
}
