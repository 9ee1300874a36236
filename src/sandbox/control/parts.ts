import type { Clock } from "../../model/clock.ts";
import type { Campaigns } from "../campaigns/campaigns.ts";
import type { Posting, Publisher } from "../events/port.ts";
import type { FaultSettings } from "../faults.ts";
import type { Limits } from "../limits/limits.ts";
import type { Messaging } from "../messaging/port.ts";
import type { Callbacks } from "../meta/callbacks.ts";
import type { MetaPublisher } from "../meta/publisher.ts";
import type { AutomationRecord, MessageRecord, Plan } from "../world/records.ts";
import type { World } from "../world/world.ts";
import type { AccountSetup } from "./account-setup.ts";

/** The sandbox's time, as those who command it see it. */
export interface ClockControls {
  /** Unix milliseconds. */
  now(): number;
  readonly isFrozen: boolean;
  /** Moves time on by so many milliseconds; what falls due on the way happens in order. */
  advance(ms: number): void;
  freeze(): void;
  thaw(): void;
}

/** The faults in force; those who meet them ask each time. */
export interface FaultBox {
  get(): FaultSettings;
  set(faults: FaultSettings): void;
}

/** What the routes of `/sandbox` work on. */
export interface ControlParts {
  readonly world: World;
  readonly clock: ClockControls;
  readonly baseClock: Clock;
  readonly ids: () => string;
  readonly setup: AccountSetup;
  readonly limits: Limits;
  readonly messaging: Messaging;
  readonly campaigns: Campaigns;
  readonly customerWrites: (account: string, from: Parameters<Messaging["receive"]>[1]) => MessageRecord;
  readonly publisher: Publisher;
  readonly posting: Posting;
  readonly faults: FaultBox;
  readonly forgetBlocks: () => void;
  /** `http://127.0.0.1:<port>` once it listens. */
  readonly url: () => string;
  /** Where an automation's incoming webhook is, as a path. */
  readonly hookPath: (automation: AutomationRecord) => string;
  readonly defaultPlan: Plan;
  /** Null: the webhooks are the service's own. */
  readonly callbacks: Callbacks | null;
  readonly meta: Pick<MetaPublisher, "request"> | null;
}
