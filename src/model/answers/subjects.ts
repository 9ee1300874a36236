import { z } from "zod";
import { type ErrorCode, errorCodes } from "../errors.ts";
import { component, foreign, pii, time, type View } from "../view.ts";
import {
  attemptSchema,
  deliverySchema,
  type EventDetail,
  nextStepSchema,
  routedEvent,
} from "./events.ts";
import { count, foreignText, foreignWord, nextSeq, seq, text } from "./fields.ts";

const trackedFields = {
  account: z.string().describe("Its account."),
  reference: pii("reference", text).describe("Your own reference, from the registration."),
  metadata: pii("metadata", z.record(z.string(), z.unknown()))
    .nullable()
    .describe("Your metadata, from the registration."),
  status: foreignWord.describe("The current status; null before the first event."),
  times: z.record(pii("word", z.string()), time).describe("When each status was first seen."),
  updatedAt: time.describe("When it changed last."),
};

export const messageSchema = component("Message", "A tracked message.", {
  ...trackedFields,
  wamid: pii("wamid", z.string()).describe("Its wamid."),
  phone: pii("phone", z.string())
    .nullable()
    .describe("The phone number in the wamid; null without one."),
  id: pii("message", text).describe("The service's message id."),
  conversationId: pii("message", text).describe("The service's conversation id."),
  errorCode: foreignWord.describe("Why it failed; null when it did not."),
  sentAt: time.nullable().describe("When it was sent, according to its registration."),
  registeredAt: time.nullable().describe("When it was registered; null when it was only seen."),
});
export type MessageView = View<typeof messageSchema>;
export type RelayMessage = z.infer<typeof messageSchema>;

export const messagePageSchema = component("MessagePage", "One page of messages.", {
  data: z.array(messageSchema).describe("Newest first."),
  next: nextSeq,
});

const runSchema = component("Run", "A tracked automation run.", {
  ...trackedFields,
  runId: pii("run", z.string()).describe("The service's run id."),
  error: foreignWord.describe("Why it failed; null when it did not."),
  registeredAt: time
    .nullable()
    .describe("When it was started through the relay; null when it was only seen."),
});
export type RunView = View<typeof runSchema>;
export type RelayRun = z.infer<typeof runSchema>;

export const runPageSchema = component("RunPage", "One page of runs.", {
  data: z.array(runSchema).describe("Newest first."),
  next: nextSeq,
});

const eventStorySchema = component("EventStory", "An event with everything that happened to it.", {
  ...routedEvent,
  deliveries: z
    .array(
      component("DeliveryStory", "A delivery with its attempts and its next step.", {
        ...deliverySchema.shape,
        attemptHistory: z.array(attemptSchema).describe("The latest attempts, oldest first."),
        earlierAttempts: count.describe("Number of attempts before those."),
        next: nextStepSchema.describe("What happens next."),
      }),
    )
    .describe("Its deliveries."),
});

const storySchema = component("Story", "One message or run with its events, or one event.", {
  message: messageSchema.nullable().describe("The message; null for runs and single events."),
  run: runSchema.nullable().describe("The run; null for messages and single events."),
  events: z.array(eventStorySchema).describe("Oldest first."),
  next: seq.nullable().describe("`after` of the next page; null at the end."),
});
export type RelayStory = z.infer<typeof storySchema>;
export type EventStory = EventDetail & Pick<View<typeof eventStorySchema>, "deliveries">;
/** With the bytes of its events. */
export type Story = Omit<View<typeof storySchema>, "events"> & {
  readonly events: readonly EventStory[];
};

export const explainedSchema = component(
  "Stories",
  "The stories of everything that has the name.",
  {
    data: z
      .array(storySchema)
      .describe("Several stories when accounts, or messages with one reference, share the name."),
  },
);
export type RelayExplained = z.infer<typeof explainedSchema>;

export const trackedSchema = component("Tracked", "The result of a registration.", {
  created: count.describe("Messages registered now."),
  known: count.describe("Messages registered before."),
});

export const trackedLineSchema = component("TrackedLine", "The result of one line of NDJSON.", {
  line: z.int().describe("The message's number in the input, from 1."),
  wamid: pii("wamid", text).describe("Its wamid; null when the line has none."),
  result: z.enum(["created", "known", "conflict", "invalid"]).describe("What became of it."),
  error: foreign.exactOptional().describe("For `conflict` and `invalid`: what is wrong."),
  details: pii("json", z.unknown())
    .exactOptional()
    .describe("For `conflict`: `{stored, given}` by field. For `invalid`: the list of faults."),
});
export type TrackedLine = z.infer<typeof trackedLineSchema>;

const trackSumsSchema = z.object({
  lines: count.describe("Lines read."),
  created: count.describe("Messages registered now."),
  known: count.describe("Messages registered before."),
  conflict: count.describe("Messages that contradict what is stored."),
  invalid: count.describe("Lines that are not valid registrations."),
});
export type TrackSums = z.infer<typeof trackSumsSchema>;

export const trackEndSchema = component("TrackEnd", "The last line of NDJSON: the sums.", {
  ...trackSumsSchema.shape,
  stoppedAt: z
    .int()
    .exactOptional()
    .describe("The first line that was not registered. Only when the relay stopped early."),
  error: foreign.exactOptional().describe("Why the relay stopped early, for people."),
  code: z
    .enum(Object.keys(errorCodes) as ErrorCode[])
    .exactOptional()
    .describe("The same for programs."),
});
export type TrackEnd = z.infer<typeof trackEndSchema>;

const stored = z
  .boolean()
  .describe(
    "False: done at the service, but the relay's store is unavailable. Keep the ids, and do not repeat the request.",
  );

export const sentMessageSchema = component("SentMessage", "A message that was sent.", {
  account: z.string().describe("The account that sent it."),
  idempotencyKey: foreign.describe("The key of the request, or the one that the relay made."),
  id: pii("message", text).describe("The service's message id; null when its answer has none."),
  wamid: pii("wamid", z.string()).describe("Its wamid."),
  status: pii("word", z.string()).describe("Its status in the service's answer."),
  conversationId: pii("message", text).describe("The service's conversation id."),
  reference: foreignText.describe("The reference of the request."),
  stored,
});

export const startedRunSchema = component("StartedRun", "A run of an automation.", {
  account: z.string().describe("The account that started it."),
  reference: foreign.describe("The reference of the request."),
  runId: pii("run", z.string()).describe("The service's run id."),
  automation: foreign.describe("The automation."),
  created: z.boolean().describe("False: the run of this reference was started before."),
  stored,
});
export type StartedRun = z.infer<typeof startedRunSchema>;
