import type { Clock } from "../../model/clock.ts";
import type { EventFaults } from "../faults.ts";
import type { Limits } from "../limits/port.ts";
import type { Random } from "../random.ts";
import type { World } from "../world/world.ts";
import { type EventRetry, usualEventRetry } from "./after-try.ts";
import { createFaultDraw } from "./delivery-faults.ts";
import { type ObservedPost, observePosts } from "./observed-posts.ts";
import type { Posting, Publisher } from "./port.ts";
import { createPoster } from "./poster.ts";
import { createPosting } from "./posting.ts";
import { createPublisher } from "./publisher.ts";

export interface EventsSettings {
  readonly world: World;
  /** The sandbox's: times of events, waits between tries, what faults hold back. */
  readonly clock: Clock;
  /** The machine's: how long a receiver has, and the time that is signed. */
  readonly baseClock: Clock;
  readonly ids: () => string;
  readonly random: Random;
  readonly limits: Pick<Limits, "spend">;
  /** Asked at each delivery. */
  readonly faults: () => EventFaults;
  /** Divides the waits between tries, and what the faults `reorder` and `duplicate` wait. */
  readonly speed: number;
  readonly retry?: EventRetry;
  /** How long a receiver has; 10 s as in "Other constants" for automations' requests: the sandbox's choice for events. */
  readonly timeoutMs?: number;
  /** Deliveries that may wait for one URL; following ones are dropped: the sandbox's choice, for its memory's sake. */
  readonly mostWaiting?: number;
  /** Receives unforeseen errors, because nothing here throws into the publisher. */
  readonly onError?: (error: unknown) => void;
  /** Told of every post as it ends. */
  readonly onPost?: ((post: ObservedPost) => void) | undefined;
}

/** Posts in flight to one URL. */
const atOnce = 64;

/** Signed events and their way to webhook URLs (messaging-service-api.md, "Events"). */
export function createEvents(settings: EventsSettings): { readonly publisher: Publisher; readonly posting: Posting } {
  const { baseClock, faults, retry = usualEventRetry, timeoutMs = 10_000, mostWaiting = 100_000, onError = () => {}, onPost } = settings;
  const random = settings.random.fork("events");
  const draw = createFaultDraw(random);
  const bare = createPoster({ baseClock, timeoutMs, connections: atOnce });
  const poster = onPost === undefined ? bare : observePosts(bare, onPost);
  const posting = createPosting({ ...settings, random, poster, retry, atOnce, mostWaiting, onError });
  const publisher = createPublisher({ ...settings, posting, onError, drawFaults: () => draw(faults()) });
  return { publisher, posting };
}
