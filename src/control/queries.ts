import { z } from "zod";
import { RelayError } from "../event/errors.ts";
import { dispositions } from "../event/plan.ts";

export const time = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));
export const listLimit = z.coerce.number().int().min(1).max(1000).default(50);
const nextOfBefore = "`next` of the page before.";
export const listBefore = z.coerce.number().int().min(1).optional().describe(nextOfBefore);

export const accountQuery = z.strictObject({ account: z.string().optional().describe("Where several accounts have it.") });

export const eventQuery = z.strictObject({
  event: z.string().optional(),
  source: z.string().optional(),
  account: z.string().optional(),
  status: z.string().optional(),
  disposition: z.enum(dispositions).optional(),
  wamid: z.string().optional(),
  from: time.optional().describe("Received from this on."),
  to: time.optional().describe("Received before this."),
  before: listBefore,
  limit: listLimit,
});

export const deliveryQuery = z.strictObject({
  route: z.string().optional().describe("`proxy:{source}` for proxied exchanges."),
  state: z.enum(["waiting", "held", "delivered", "dead"]).optional(),
  before: z
    .string()
    .regex(/^\d{1,15}\.\d{1,15}$/, "is not the next of a page before")
    .optional()
    .describe(nextOfBefore),
  limit: listLimit,
});

export const replayBody = z
  .strictObject({
    route: z.string().optional(),
    disposition: z
      .enum(["forwarded", "filtered", "ignored", "quarantined"])
      .optional()
      .describe(
        "Of events with this one. `filtered` and `ignored` ones are judged anew, `quarantined` ones are released when they are valid now; `states` says nothing then.",
      ),
    source: z.string().optional().describe("Of this source. Only with `disposition: quarantined`."),
    event: z.number().int().min(1).optional().describe("The seq of one event. Only with `disposition: quarantined`."),
    /** `dead` alone by default: what was delivered goes out again only when asked for. */
    states: z
      .array(z.enum(["delivered", "dead"]))
      .min(1)
      .default(["dead"]),
    errorCode: z.string().optional(),
    from: time.optional().describe("Of events received from this on."),
    to: time.optional().describe("Of events received before this."),
    dryRun: z.boolean().default(false).describe("Only count."),
    cursor: z
      .string()
      .regex(/^\d{1,15}\.\d{1,15}\.\d{1,15}$/, "is not the next of an answer before")
      .nullable()
      .default(null)
      .describe("`next` of the answer before, with the same filter."),
    limit: z.number().int().min(1).optional().describe("Most deliveries of one call. Not given: as many as go within its time."),
  })
  .prefault({});

/** Parses or throws `bad_request`, whose details say where and why. */
export function parse<T extends z.ZodType>(schema: T, value: unknown): z.infer<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw badRequest(parsed.error);
}

export function badRequest({ issues }: z.ZodError): RelayError {
  const details = issues.flatMap(faultsIn).map(({ path, message }) => ({ path: path.map(String).join("."), message }));
  return new RelayError(
    "bad_request",
    details.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; "),
    details,
  );
}

type Issue = z.core.$ZodIssue;

/** Of what may have several shapes, the faults of the one that it has: that none of them fits says nothing. */
function faultsIn(issue: Issue): Pick<Issue, "path" | "message">[] {
  if (issue.code !== "invalid_union") return [issue];
  const meant = issue.errors.find((faults) => !faults.some(({ code, path }) => code === "invalid_type" && path.length === 0));
  if (meant === undefined) return [issue];
  return meant.flatMap(faultsIn).map(({ path, message }) => ({ path: [...issue.path, ...path], message }));
}
