import { z } from "zod";
import {
  accountResumedSchema,
  deliveryGroupsSchema,
  deliveryPageSchema,
  deliverySchema,
  eventDetailSchema,
  eventPageSchema,
  eventSchema,
  explainedSchema,
  handshakeSchema,
  instanceSchema,
  reconciledSchema,
  reconcilePlanSchema,
  reloadSchema,
  replayCountSchema,
  replayedSchema,
  resumedSchema,
  retriedSchema,
  secretUsesSchema,
  sentMessageSchema,
  sessionCodeSchema,
  storySchema,
  trackEndSchema,
  trackedLineSchema,
  trackedSchema,
} from "../model/answers.ts";
import { auditProgressSchema, auditSchema } from "../model/audit.ts";
import { overviewSchema } from "../model/overview.ts";

/** The relay's answers that commands read. */
const answers = {
  event: eventSchema,
  delivery: deliverySchema,
  instance: instanceSchema,
  eventDetail: eventDetailSchema,
  events: eventPageSchema,
  deliveries: deliveryPageSchema,
  deliveryGroups: deliveryGroupsSchema,
  overview: overviewSchema,
  secrets: secretUsesSchema,
  story: storySchema,
  explained: explainedSchema,
  replayCount: replayCountSchema,
  replayed: replayedSchema,
  retried: retriedSchema,
  registered: trackedSchema,
  /** One line of NDJSON. */
  registeredLine: trackedLineSchema,
  lastLine: trackEndSchema,
  sent: sentMessageSchema,
  /** It is unknown whether an earlier call under this key sent the message. */
  unknownOutcome: z.object({ code: z.literal("outcome_unknown"), details: z.object({ resend: z.number(), justNow: z.boolean() }) }),
  sessionCode: sessionCodeSchema,
  reload: reloadSchema,
  refusedReload: z.object({ code: z.literal("settings_refused"), details: reloadSchema }),
  resumed: resumedSchema,
  handshake: handshakeSchema,
  accountResumed: accountResumedSchema,
  auditProgress: auditProgressSchema,
  audit: auditSchema,
  reconcilePlan: reconcilePlanSchema,
  reconciled: reconciledSchema,
};

type Answers = typeof answers;
export type AnswerName = keyof Answers;
export type Answer<Name extends AnswerName> = z.infer<Answers[Name]>;

/** `json` as this answer, or the first fault. */
export function parseAnswer<Name extends AnswerName>(name: Name, json: unknown): { data: Answer<Name> } | { fault: string } {
  const parsed = answers[name].safeParse(json);
  if (parsed.success) return { data: parsed.data as Answer<Name> };
  const [issue] = parsed.error.issues;
  return { fault: `${issue?.path.map(String).join(".")}: ${issue?.message}` };
}
