import type { Settings } from "../config/schema.ts";
import { fieldsSchema, type PolledStatus, polledEvent, type ReceivedEvent } from "../model/event.ts";
import type { Wamid } from "../model/ids.ts";
import type { MessageState } from "../model/tracking.ts";
import type { AcceptOutcome } from "../store/rules.ts";
import { stepMessage } from "../track/states.ts";

export interface LearningParts {
  readonly settings: () => Settings;
  readonly now: () => number;
  readonly accept: (event: ReceivedEvent) => Promise<AcceptOutcome>;
}

/** A status that the service told when asked. */
export interface Learned extends Pick<PolledStatus, "account" | "origin" | "messageId" | "status" | "errorCode" | "because"> {
  readonly wamid: string;
  /** Not given: the first source of the account's events; an account that has none is its own. */
  readonly source?: string;
}

/** What was learned by asking goes in by the front door, as the event that a webhook of the account's source would have brought. */
export interface Learning {
  /** Whether a status moves a message of this state. */
  moves(state: MessageState, status: string, errorCode: string | null): boolean;
  /** True when it was news. */
  learn(learned: Learned): Promise<boolean>;
}

export function createLearning({ settings, now, accept }: LearningParts): Learning {
  return {
    moves: (state, status, errorCode) => stepMessage(state, { status, error: errorCode, at: now() }).transition !== null,
    async learn({ wamid, source, ...learned }) {
      const from = source ?? sourceOf(settings(), learned.account);
      const given = settings().sources[from];
      const fields = given?.kind === "events" ? given.fields : fieldsSchema.parse({});
      const event = polledEvent({ ...learned, wamid: wamid as Wamid, source: from, fields, at: now() });
      return (await accept(event)).result === "accepted";
    },
  };
}

function sourceOf({ sources }: Settings, account: string): string {
  const found = Object.entries(sources).find(([, { kind, account: of }]) => kind === "events" && of === account);
  return found?.[0] ?? account;
}
