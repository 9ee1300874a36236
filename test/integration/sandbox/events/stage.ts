import { systemClock } from "../../../../src/model/clock.ts";
import type { Wamid } from "../../../../src/model/ids.ts";
import type { SignatureSettings } from "../../../../src/model/signature.ts";
import type { MessageStatus } from "../../../../src/model/statuses.ts";
import { createSandboxClock } from "../../../../src/sandbox/clock.ts";
import { createEvents, type EventsSettings } from "../../../../src/sandbox/events/events.ts";
import { type EventFaults, eventFaultsSchema } from "../../../../src/sandbox/faults.ts";
import { createGrowingIds, createRandom } from "../../../../src/sandbox/ids.ts";
import { createLimits, noUsage } from "../../../../src/sandbox/limits.ts";
import {
  type Core,
  createWorld,
  type DeliveryRecord,
  type MessageRecord,
  type Plan,
  type WebhookRecord,
  type World,
} from "../../../../src/sandbox/world.ts";
import { longestWaitMs } from "../../../harness/until.ts";

export const secret = "a secret of the webhook";

export interface StageOptions extends Partial<Omit<EventsSettings, "faults"> & Core> {
  readonly plan?: Plan;
  readonly faults?: Partial<EventFaults>;
  readonly seed?: string;
}

/** The events part alone, with an account `main`, on clocks that run unless others are given. */
export function createStage(options: StageOptions = {}) {
  const { plan = "escala", baseClock = systemClock, seed = "1", ...rest } = options;
  const world: World = rest.world ?? createWorld({ changed() {} });
  const clock = rest.clock ?? createSandboxClock(baseClock);
  const random = createRandom(seed);
  const ids = rest.ids ?? createGrowingIds({ now: clock.now, random: random.fork("ids") });
  const account = world.accounts.get("main") ?? {
    id: "main",
    account: "main",
    createdAt: clock.now(),
    plan,
    contactLimit: null,
    isConnected: true,
    numbers: [],
    usage: noUsage,
  };
  world.accounts.put(account);
  let faults = eventFaultsSchema.parse(options.faults ?? {});
  const limits = createLimits({ world, clock });
  const owned = (id: string) => ({ id: ids(), account: id, createdAt: clock.now() });
  const core = { world, clock, baseClock, ids, owned, random, speed: 100, ...rest };
  const { publisher, posting } = createEvents(core, {
    // A receiver in the same process is slow when the machine is.
    ...(options.baseClock === undefined ? { timeoutMs: longestWaitMs } : {}),
    metaFaults: null,
    ...rest,
    limits,
    faults: () => faults,
  });
  return {
    world,
    clock,
    account,
    publisher,
    posting,
    setFaults(shares: Partial<EventFaults>) {
      faults = eventFaultsSchema.parse(shares);
    },
    addWebhook(url: string, more: Partial<WebhookRecord> = {}): WebhookRecord {
      const signature: SignatureSettings = { service: "acme" };
      const webhook = {
        id: ids(),
        account: "main",
        createdAt: clock.now(),
        url,
        events: ["*"],
        secret,
        signature,
        isEnabled: true,
        ...more,
      };
      world.webhooks.put(webhook);
      return webhook;
    },
    status(wamid: string, status: MessageStatus, errorCode?: string | number): void {
      const message = {
        account: "main",
        wamid: wamid as Wamid,
        status,
        ...(errorCode === undefined ? {} : { errorCode }),
      };
      publisher.messageStatus(message as MessageRecord);
    },
    deliveries: (): readonly DeliveryRecord[] => world.deliveries.list("main"),
    [Symbol.asyncDispose]: () => posting.close(),
  };
}
