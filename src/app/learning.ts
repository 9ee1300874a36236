import type { Settings } from "../config/schema.ts";
import type { Wamid } from "../event/ids.ts";
import { learnedEvent } from "../event/learned-event.ts";
import type { ReceivedEvent } from "../event/received.ts";
import { fieldsSchema } from "../event/subject.ts";
import type { Tracking } from "../reconcile/port.ts";
import type { AcceptOutcome } from "../store/planned.ts";
import { stepMessage } from "../track/message-states.ts";

export interface LearningParts {
  readonly settings: () => Settings;
  readonly now: () => number;
  readonly accept: (event: ReceivedEvent) => Promise<AcceptOutcome>;
  /** A status that was news. */
  readonly learned: (account: string, wamid: string, status: string) => void;
}

/** What reconciliation learned goes in by the front door, as the event that a webhook of the account's source would have brought. */
export function createLearning({ settings, now, accept, learned }: LearningParts): Tracking {
  return {
    moves: (state, status, errorCode) => stepMessage(state, { status, errorCode, at: now() }).transition !== null,
    async learn(account, { wamid, messageId }, { status, errorCode }) {
      const { source, fields } = sourceOf(settings(), account);
      const event = learnedEvent({
        account,
        source,
        fields,
        origin: "reconcile",
        messageId,
        wamid: wamid as Wamid,
        status,
        errorCode,
        at: now(),
      });
      const isNews = (await accept(event)).result === "accepted";
      if (isNews) learned(account, wamid, status);
      return isNews;
    },
  };
}

/** The account's source of events; an account that has none is its own. */
function sourceOf({ sources }: Settings, account: string) {
  for (const [source, each] of Object.entries(sources)) {
    if (each.kind === "events" && each.account === account) return { source, fields: each.fields };
  }
  return { source: account, fields: fieldsSchema.parse({}) };
}
