import type { HydrationStart } from "../event/hydration.ts";
import type { DeliveryPlan } from "../event/plan.ts";
import type { RoutedEvent } from "../event/routed-event.ts";
import type { RunStatus } from "../event/statuses.ts";
import type { MessageState, RunState, Step, Tracking } from "../event/tracking.ts";

/**
 * What the store asks of tracking and routing: pure functions, so that track + plan are one step that happens whole or
 * not at all, the one that accepts the event or one after it. `plan` and the two settings change when the settings are
 * reloaded.
 */
export interface Rules {
  stepMessage(state: MessageState, seen: { status: string | null; errorCode: string | null; at: number }): Step<MessageState>;
  stepRun(state: RunState, seen: { status: RunStatus | null; error: string | null; at: number }): Step<RunState>;
  plan(event: RoutedEvent, tracking: Tracking): DeliveryPlan;
  /** Told of an event that `plan`, or one of the steps, failed on: it is set aside. */
  failed?(error: unknown, event: Pick<RoutedEvent, "event" | "account" | "source">): void;
  /** How the hydration of a truncated event begins; null: it needs none. */
  hydration(event: { readonly event: string; readonly account: string; readonly hasSubject: boolean }): HydrationStart | null;
  /** Whether the route's deliveries of one message go out one after the other, and the wait before a first attempt in ms. */
  timing(route: string): { readonly ordered: boolean; readonly firstWait: number };
  /** How long an event may stay parked, in milliseconds. */
  readonly parkFor: number;
}
