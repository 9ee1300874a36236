import type { EventFaults, MetaFaults } from "../faults.ts";
import type { Limits } from "../limits.ts";
import { createMetaPublisher } from "../meta/publisher.ts";
import {
  type AccountRecord,
  accountOf,
  type Core,
  type DeliveryRecord,
  type EventRecord,
  hasApi,
  type WebhookRecord,
} from "../world.ts";
import { createFaultDraw } from "./delivery-faults.ts";
import { createPoster, metaRetry, type ObservedPost, usualEventRetry } from "./poster.ts";
import { createPosting } from "./posting.ts";
import { createPublisher } from "./publisher.ts";

export interface EventsSettings {
  readonly limits: Pick<Limits, "spend">;
  readonly faults: () => EventFaults;
  readonly timeoutMs?: number;
  readonly mostWaiting?: number;
  readonly metaFaults: (() => MetaFaults) | null;
  readonly onPost?: ((post: ObservedPost) => void) | undefined;
}

const atOnce = 64;

export function createEvents(core: Core, settings: EventsSettings) {
  const { world, owned, baseClock } = core;
  const { limits, faults, metaFaults, timeoutMs = 10_000, mostWaiting = 100_000 } = settings;
  const random = core.random.fork("events");
  const draw = createFaultDraw(random);
  const onPost = (post: ObservedPost): void => {
    meta?.posted(post.body);
    settings.onPost?.(post);
  };
  const poster = createPoster({ baseClock, timeoutMs, connections: atOnce, onPost });
  const posting = createPosting(
    { ...core, random },
    { poster, atOnce, retry: metaFaults === null ? usualEventRetry : metaRetry },
  );

  const deliver = (account: AccountRecord, webhook: WebhookRecord, event: EventRecord): void => {
    const drawn = draw(faults());
    const dropped = (): string | null => {
      if (!limits.spend(account, "webhookDeliveries"))
        return "monthly quota of webhook deliveries used up";
      if (drawn.drop) return "fault: drop";
      return posting.waitingFor(webhook.id) < mostWaiting
        ? null
        : "too many deliveries wait for this URL";
    };
    const reason = dropped();
    const delivery: DeliveryRecord = {
      ...owned(account.id),
      eventId: event.id,
      webhookId: webhook.id,
      status: reason === null ? "waiting" : "dropped",
      reason,
      tries: 0,
      answered: null,
      nextAt: event.createdAt,
    };
    world.deliveries.put(delivery);
    // Requests of Meta are not truncated, and have a wrong item instead of a wrong body.
    if (reason === null)
      posting.add(
        delivery,
        metaFaults === null ? drawn : { ...drawn, truncate: false, malformed: null },
      );
  };
  const emit = (event: EventRecord): void => {
    world.events.put(event);
    const owner = accountOf(world, event.account);
    if (!hasApi(owner)) return;
    for (const webhook of world.webhooks.list(owner.id)) {
      if (isOn(webhook) && isSubscribed(webhook.events, event.event))
        deliver(owner, webhook, event);
    }
  };
  const hasReceiver = () => [...world.webhooks.all()].some(isOn);
  const meta =
    metaFaults === null
      ? null
      : createMetaPublisher(core, {
          emit,
          faults: metaFaults,
          malformed: () => faults().malformed,
          hasReceiver,
        });
  return {
    publisher: meta?.publisher ?? createPublisher(core, emit),
    posting,
    meta,
    waiting: () => posting.waiting() + (meta?.gathered() ?? 0),
    idle(): Promise<void> {
      meta?.flush();
      return posting.idle();
    },
  };
}

function isOn({ isEnabled, meta }: WebhookRecord): boolean {
  return isEnabled && meta?.isVerified !== false;
}

export function isSubscribed(kinds: readonly string[], event: string): boolean {
  return kinds.some(
    (kind) =>
      kind === event ||
      kind === "*" ||
      (kind.endsWith(".*") && event.startsWith(kind.slice(0, -1))),
  );
}
