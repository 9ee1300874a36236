import type { Clock } from "../../model/clock.ts";
import type { EventFaults, MetaFaults } from "../faults.ts";
import type { Random } from "../ids.ts";
import type { Limits } from "../limits/limits.ts";
import { createEarlyStatuses, createMetaPublisher, type EarlyStatuses, type MetaPublisher } from "../meta/publisher.ts";
import type { World } from "../world/world.ts";
import { type EventRetry, metaRetry, usualEventRetry } from "./after-try.ts";
import { createFaultDraw } from "./delivery-faults.ts";
import type { Posting, Publisher } from "./port.ts";
import { createPoster, type ObservedPost, observePosts } from "./poster.ts";
import { createPosting } from "./posting.ts";
import { createEmit, createPublisher, isOn } from "./publisher.ts";

export interface EventsSettings {
  readonly world: World;
  /** The sandbox's: times of events, waits between tries, what faults hold back. */
  readonly clock: Clock;
  /** The machine's: how long a receiver has, and the time that is signed. */
  readonly baseClock: Clock;
  readonly ids: () => string;
  readonly random: Random;
  readonly limits: Pick<Limits, "spend">;
  readonly faults: () => EventFaults;
  /** Divides the waits between tries, and what the faults `reorder` and `duplicate` wait. */
  readonly speed: number;
  readonly retry?: EventRetry;
  /** How long a receiver has; 10 s as in "Other constants" for automations' requests: the sandbox's choice for events. */
  readonly timeoutMs?: number;
  /** Deliveries that may wait for one URL; following ones are dropped: the sandbox's choice, for its memory's sake. */
  readonly mostWaiting?: number;
  readonly onError?: (error: unknown) => void;
  /** Given: the webhooks are those of Meta's Cloud API, with these faults. */
  readonly meta?: (() => MetaFaults) | undefined;
  readonly onPost?: ((post: ObservedPost) => void) | undefined;
}

const atOnce = 64;

export interface MetaEvents {
  readonly publisher: MetaPublisher;
  readonly early: EarlyStatuses;
}

/** Signed events and their way to webhook URLs (messaging-service-api.md, "Events"), or Meta's webhooks. */
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
  // Bodies of Meta's are neither truncated nor replaced: a wrong item is in the middle of a request.
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
