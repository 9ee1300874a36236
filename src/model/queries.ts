import { z } from "zod";
import { seriesNames } from "./history.ts";
import { maxIdLength, maxReferenceLength } from "./ids.ts";
import { fewestPhoneDigits } from "./mask.ts";
import { type StepName, seriesKeys, stepNames } from "./series.ts";
import { deliveryStates, dispositions } from "./states.ts";

/*
 * What the lists and figures of the control API are asked. Each query is declared here alone: the
 * handlers, the published client and `/v1/openapi.json` derive from it, and store/read has a
 * condition for each filter.
 */

/** Of a caller whose token is limited to accounts. Absent: every account. */
export interface Limited {
  readonly accounts?: readonly string[] | undefined;
}

/** Of one account, and of those that the caller may see. */
export interface OfAccounts extends Limited {
  readonly account?: string | undefined;
}

export const givenTime = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));
export const flag = z.enum(["true", "false"]).transform((text) => text === "true");
const wholeNumber = z.coerce.number<number>().int();

/** PostgreSQL stores no text with one, and cannot look for it. */
export const nulFault = "has a NUL character";
/**
 * The stores return half of a surrogate pair as another text, so a repeated request would conflict.
 */
const storedText = (most: number) =>
  z
    .string()
    .min(1)
    .max(most)
    .refine((text) => text.isWellFormed(), "is not well-formed text")
    .refine((text) => !text.includes("\0"), nulFault);
/** A foreign id, or the reference of a run. */
export const idText = storedText(maxIdLength);
/** Of a message. */
export const referenceText = storedText(maxReferenceLength);
/** The last digits of a phone number, at least as many as stores index. */
const phoneEnd = z
  .string()
  .regex(new RegExp(`^\\d{${fewestPhoneDigits},15}$`), `must be ${fewestPhoneDigits} to 15 digits`);

const limit = wholeNumber.min(1).max(1000).default(50).describe("Most rows of one page.");
const nextOfBefore = "`next` of the previous page.";
const before = wholeNumber.min(1).optional().describe(nextOfBefore);
/** At every endpoint that answers a known caller with JSON (endpoints/table.ts). */
export const reveal = flag
  .optional()
  .describe(
    "`true`: personal data in clear. Needs the scope `pii`, and writes a line to the log. `false`: masked. Default: clear for a bearer token with `pii`, else masked.",
  );

const word = z.string().optional();
const name = z.string().min(1).optional();
const moment = givenTime.optional();
const received = {
  from: moment.describe("Received at or after this time."),
  to: moment.describe("Received before this time."),
};
const ofEvents = {
  from: moment.describe("Of events received at or after this time."),
  to: moment.describe("Of events received before this time."),
};

export const accountQuery = z.strictObject({
  account: word.describe("Selects among several accounts that have it."),
});

/** Filters of events that the list and the live stream share. */
const eventFilters = {
  event: word.describe("Only this event kind."),
  source: word.describe("Only from this source."),
  account: word.describe("Only of this account."),
  status: word.describe("Only with this status."),
  disposition: z.enum(dispositions).optional().describe("Only with this disposition."),
  errorCode: word.describe("Only with this error code."),
};

export const eventQuery = z.strictObject({
  ...eventFilters,
  wamid: word.describe("Only of this message; its wamid may be masked."),
  subject: word.describe("Only of this message or run: its wamid or run id, masked or not."),
  q: name.describe(
    "Only the event, or the events of the message or run, with this name: an id, masked or not, a seq, a reference, a user id of Meta, or the last digits of a phone number, at least four. Without `pii`: whole names.",
  ),
  request: z
    .string()
    .regex(/^[0-9a-f]{64}$/, "is not a digest of 64 hex digits")
    .optional()
    .describe("Only those that came in one request: its digest."),
  ...received,
  before,
  limit,
});
export type EventQuery = z.infer<typeof eventQuery> & Limited;

export const liveQuery = z.strictObject({
  tail: flag.optional().describe("`true`: also events as they are stored."),
  ...eventFilters,
});

/** In place of a cause: no attempt failed. */
const noCause = "none";
const cause = z
  .string()
  .min(1)
  .max(64)
  .transform((text) => (text === noCause ? null : text))
  .optional()
  .describe(
    `Only those whose last failed attempt failed for this reason, such as \`503\` or \`timeout\`. \`${noCause}\`: those of which no attempt failed.`,
  );

export const deliveryQuery = z.strictObject({
  route: word.describe("Only of this route; `proxy:{source}` for proxied exchanges."),
  state: z.enum(deliveryStates).optional().describe("Only in this state."),
  cause,
  errorCode: word.describe("Only of events with this error code, such as `131026`."),
  ...ofEvents,
  before: z
    .string()
    .regex(/^\d{1,15}\..{0,200}$/, "is not the next of a page before")
    .optional()
    .describe(nextOfBefore),
  limit,
});
export type DeliveryQuery = z.infer<typeof deliveryQuery> & Limited;

export const groupQuery = deliveryQuery.pick({
  route: true,
  state: true,
  errorCode: true,
  from: true,
  to: true,
});
export type GroupQuery = z.infer<typeof groupQuery> & Limited;

export const replayBody = z
  .strictObject({
    route: word.describe("Only of this route."),
    disposition: z
      .enum(["routed", "filtered", "ignored", "quarantined", "unassigned"])
      .optional()
      .describe(
        "Only of events with this one. `filtered` and `ignored` events are routed again. `quarantined` and `unassigned` ones are released when they are valid now, whatever `states` is.",
      ),
    source: word.describe(
      "Only of this source. Only with `disposition: quarantined` or `unassigned`.",
    ),
    event: z
      .number()
      .int()
      .min(1)
      .optional()
      .describe("The seq of one event. Only with `disposition: quarantined` or `unassigned`."),
    states: z
      .array(z.enum(["waiting", "delivered", "dead"]))
      .min(1)
      .refine(
        (states) => !states.includes("waiting") || states.every((state) => state === "waiting"),
        "waiting stands alone",
      )
      .default(["dead"])
      .describe(
        "Only in these states. `waiting`, alone: those that wait for their next attempt go out now.",
      ),
    cause,
    errorCode: idText.optional().describe("Only of events with this error code."),
    ...ofEvents,
    dryRun: z.boolean().default(false).describe("Only count."),
    cursor: z
      .string()
      .regex(/^\d{1,15}\.\d{1,15}\.-?\d{1,16}\..{0,200}$/, "is not the next of an answer before")
      .nullable()
      .default(null)
      .describe("`next` of the previous answer, with the same filter."),
    limit: z
      .number()
      .int()
      .min(1)
      .optional()
      .describe(
        "Most deliveries of one request. Default: as many as it can send in a few seconds.",
      ),
  })
  .prefault({});
export type ReplayQuery = Omit<z.infer<typeof replayBody>, "dryRun" | "cursor" | "limit"> & Limited;

const subjectFilters = {
  account: word.describe("Only of this account."),
  status: word.describe("Only with this current status."),
  reference: word.describe("Only with this reference."),
  before,
  limit,
};

export const messageQuery = z.strictObject({
  ...subjectFilters,
  q: name.describe(
    "Only with this wamid or service's id, masked or not, with a reference that begins so, a user id of Meta, or a phone number that ends so. Without `pii`: whole names.",
  ),
  errorCode: word.describe("Only with this error code."),
  from: moment.describe("Changed at or after this time."),
  to: moment.describe("Changed before this time."),
  phone: phoneEnd
    .optional()
    .describe(
      "Only with a phone number in the wamid that ends with these digits, at least four. Without `pii`: exactly this number.",
    ),
});
export type MessageQuery = z.infer<typeof messageQuery> & Limited;

export const runQuery = z.strictObject({
  ...subjectFilters,
  runId: word.describe("Only this run; its id may be masked."),
  q: name.describe(
    "Only with this run id, masked or not, or with a reference that begins so. Without `pii`: whole names.",
  ),
});
export type RunQuery = z.infer<typeof runQuery> & Limited;

export const searchQuery = z.strictObject({
  q: z
    .string()
    .trim()
    .min(1)
    .max(1024)
    .describe(
      "An id, masked or not, a seq, the beginning of a reference, a user id of Meta, or the last digits of a phone number, at least four. Without `pii`: whole names.",
    ),
});

export const explainQuery = accountQuery.extend({
  as: z.enum(["event", "message", "run"]).optional().describe("What the name is."),
  after: wholeNumber
    .min(0)
    .optional()
    .describe("Only events with a greater seq: `next` of the previous page."),
  limit: wholeNumber.min(1).max(200).default(50).describe("Most events of each story."),
});
export type ExplainQuery = z.infer<typeof explainQuery> & Limited & { readonly name: string };

export const seriesQuery = z.strictObject({
  name: z.enum(seriesNames).describe("The series."),
  by: z
    .enum(seriesKeys)
    .optional()
    .describe("What to split it by. Default: the first of the table below."),
  from: moment.describe("From this time on. Default: 24 hours before `to`."),
  to: moment.describe("Before this time. Default: now."),
  step: z
    .enum(Object.keys(stepNames) as [StepName, ...StepName[]])
    .optional()
    .describe(
      "Default: `minute` up to 24 hours, `hour` up to 31 days, else `day`. Days begin at midnight UTC.",
    ),
  source: word.describe("Only this source, for series of sources."),
  route: word.describe("Only this route, for series of routes."),
});

export const qualityQuery = z.strictObject({
  from: moment.describe("Messages sent from this time on. Default: 24 hours before `to`."),
  to: moment.describe("Statuses received before this time. Default: now."),
  account: word.describe("Only messages of this account."),
  route: word.describe("Only events for this route."),
  reference: z
    .string()
    .min(1)
    .max(maxReferenceLength)
    .optional()
    .describe("Only messages whose reference begins with it."),
});

export type QualityQuery = z.infer<typeof qualityQuery> &
  Limited & { readonly from: number; readonly to: number };

export const auditQuery = z.strictObject({
  ...received,
  source: word.describe("Only from this source."),
  wait: z.coerce
    .number<number>()
    .min(0)
    .max(30)
    .default(10)
    .describe("Seconds to wait for the report."),
});
