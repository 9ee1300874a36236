import type { AttemptView, DeliveryView, EventDetail } from "./port.ts";
import type { MessageView, RunView } from "./tracked-port.ts";

/**
 * What comes next of a delivery.
 *
 * | kind | meaning |
 * |---|---|
 * | `attempt` | the next attempt is made at `at` |
 * | `due` | since `at`; its turn comes within the destination's concurrency and rate |
 * | `exchange` | a proxied exchange is under way |
 * | `held` | goes out after that of event `behind`, and `ahead` more of its message |
 * | `breaker` | the destination failed time and again: attempts pause, and none is spent |
 * | `paused` | the destination asked not to be called before `at` (429 with Retry-After) |
 * | `stopped` | its destination is stopped; `reason` says why |
 * | `no route` | its route is not in the settings |
 * | `dead` | nothing, until somebody retries it |
 * | `done` | nothing |
 */
export interface NextStep {
  readonly kind: "attempt" | "due" | "exchange" | "held" | "breaker" | "paused" | "stopped" | "no route" | "dead" | "done";
  /** Unix ms. */
  readonly at: number | null;
  /** Seq of an event. */
  readonly behind: number | null;
  readonly ahead: number;
  readonly reason: string | null;
}

export interface DeliveryStory extends DeliveryView {
  /** The last of them. */
  readonly tries: readonly AttemptView[];
  /** How many were made before those. */
  readonly earlierTries: number;
  readonly next: NextStep;
}

/** An event that was accepted and is planned after others. */
export interface Waits {
  /** Unix ms. */
  readonly since: number;
  /** How many events are planned before it. */
  readonly ahead: number;
}

export interface EventStory {
  readonly event: EventDetail;
  /** Null unless it waits to be planned. */
  readonly waits: Waits | null;
  readonly deliveries: readonly DeliveryStory[];
}

/** One message or run with its events, or one event. Of a message whose events all wait to be planned nothing more is known. */
export interface Story {
  readonly message: MessageView | null;
  readonly run: RunView | null;
  /** Oldest first. */
  readonly events: readonly EventStory[];
  /** Asks for the events after these; null: there are none. */
  readonly next: number | null;
}

export interface Explained {
  /** Several where accounts, or messages of one reference, have the name in common; none when nothing has it. */
  readonly stories: readonly Story[];
  /** Events that wait to be planned, and were not looked at for those of a message: there are too many, and these are the oldest. */
  readonly unseen: number;
}

export interface ExplainQuery {
  readonly name: string;
  /** What the name is; not given: the first of these that it is of something. */
  readonly as?: "event" | "message" | "run" | undefined;
  readonly account?: string | undefined;
  readonly after?: number | undefined;
  readonly limit: number;
}

/** What the control API asks of the story of an event, message or run. */
export interface ExplainPort {
  explain(query: ExplainQuery): Promise<Explained>;
}
