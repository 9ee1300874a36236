import type { Clock } from "../../model/clock.ts";
import type { EventFaults, MetaFaults } from "../faults.ts";
import type { Random } from "../ids.ts";
import type { Limits } from "../limits/limits.ts";
import { createEarlyStatuses, createMetaPublisher, type EarlyStatuses, type MetaPublisher } from "../meta/publisher.ts";
import type { World } from "../world/world.ts";
import { type EventRetry, metaRetry, usualEventRetry } from "./after-try.ts";
import { createFaultDraw } from "./delivery-faults.ts";
import { createPoster, type ObservedPost, observePosts } from "./poster.ts";
import { createPosting, type Posting } from "./posting.ts";
import { createEmit, createPublisher, isOn, type Publisher } from "./publisher.ts";

export interface EventsSettings {
  readonly world: World;
  readonly clock: Clock;
  readonly baseClock: Clock;
  readonly ids: () => string;
  readonly random: Random;
  readonly limits: Pick<Limits, "spend">;
  readonly faults: () => EventFaults;
  readonly speed: number;
  readonly retry?: EventRetry;
  /** The sandbox's choice: 10 s, as for automations' requests. */
  readonly timeoutMs?: number;
  /** Beyond it deliveries to one URL are dropped: the sandbox's choice. */
  readonly mostWaiting?: number;
  readonly onError?: (error: unknown) => void;
  readonly meta?: (() => MetaFaults) | undefined;
  readonly onPost?: ((post: ObservedPost) => void) | undefined;
}

const atOnce = 64;

export interface MetaEvents {
  readonly publisher: MetaPublisher;
  readonly early: EarlyStatuses;
}

export function createEvents(settings: EventsSettings): {
  readonly publisher: Publisher;
  readonly posting: Posting;
  readonly meta: MetaEvents | null;
} {
  const { world, ids, limits, speed, baseClock, faults, meta, timeoutMs = 10_000, mostWaiting = 100_000, onError = () => {} } = settings;
  const { retry = meta === undefined ? usualEventRetry : metaRetry } = settings;
  const random = settings.random.fork("events");
  const draw = createFaultDraw(random);
  const early =
    meta === undefined ? null : createEarlyStatuses({ baseClock, faults: meta, hasReceiver: () => [...world.webhooks.all()].some(isOn) });
  const onPost = (post: ObservedPost): void => {
    early?.posted(post.body);
    settings.onPost?.(post);
  };
  const poster = observePosts(createPoster({ baseClock, timeoutMs, connections: atOnce }), onPost);
  const posting = createPosting({ ...settings, random, poster, retry, atOnce, mostWaiting, onError });
  // Requests of Meta are not truncated, and have a wrong item instead of a wrong body.
  const drawFaults = () => ({ ...draw(faults()), ...(meta === undefined ? {} : { truncate: false, malformed: null }) });
  const emit = createEmit({ world, ids, limits, posting, drawFaults });
  if (meta === undefined || early === null) return { publisher: createPublisher({ ...settings, emit, onError }), posting, meta: null };
  const malformed = () => faults().malformed;
  const publisher = createMetaPublisher({ ...settings, faults: meta, malformed, speed, emit, onError });
  return {
    publisher,
    posting: {
      ...posting,
      waiting: () => posting.waiting() + publisher.gathered(),
      idle() {
        publisher.flush();
        return posting.idle();
      },
    },
    meta: { publisher, early },
  };
}
