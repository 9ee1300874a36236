import type { Random } from "../ids.ts";
import type { Core, DeliveryRecord, World } from "../world.ts";
import { type DeliveryFaults, malformedBody, noFaults } from "./delivery-faults.ts";
import { afterTry, type EventRetry, type Poster, type PostOrder } from "./poster.ts";
import { type SandboxEvent, truncatedBody } from "./publisher.ts";

const longestHoldMs = 10_000;

/** Of one webhook. `held`: by line, what waits until a later event of it was tried. */
const createQueue = (atOnce: number) => ({
  run: createLane(atOnce),
  held: new Map<string, { readonly eventId: string; readonly release: () => void }>(),
  all: new Set<PendingPost>(),
});

function createQueues(atOnce: number) {
  const queues = new Map<string, ReturnType<typeof createQueue>>();
  return {
    of(webhookId: string) {
      const queue = queues.get(webhookId) ?? createQueue(atOnce);
      queues.set(webhookId, queue);
      return queue;
    },
    waiting: () => [...queues.values()].reduce((sum, { all }) => sum + all.size, 0),
  };
}

interface PendingPost {
  readonly delivery: DeliveryRecord;
  readonly queue: ReturnType<typeof createQueue>;
  /** Events of one message or run keep their order. */
  readonly line: string;
  readonly faults: DeliveryFaults;
  isPosting: boolean;
}

/**
 * A delivery is held back (by faults only) → in its message's line → tried → waits → tried again …,
 * and may end at each step. The records say how far it is, for a restart. Side posts are what
 * faults add: once each, and on no record.
 */
export function createPosting(
  core: Core,
  { poster, retry, atOnce }: { poster: Poster; retry: EventRetry; atOnce: number },
) {
  const { world, clock, baseClock, random, speed } = core;
  const queues = createQueues(atOnce);
  const idlers: (() => void)[] = [];
  let sidePosts = 0;
  let isClosed = false;
  const passed = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  const waiting = () => queues.waiting() + sidePosts;
  const wake = (): void => {
    if (idlers.length > 0 && (isClosed || waiting() === 0))
      for (const idler of idlers.splice(0)) idler();
  };
  const end = (
    post: PendingPost,
    status: "delivered" | "failed" | "dropped",
    reason: string | null,
  ): void => {
    post.queue.all.delete(post);
    world.deliveries.update(post.delivery, { status, reason });
    wake();
  };
  /** Null: it is over. */
  const orderOf = (post: PendingPost): PostOrder | null => {
    if (isClosed || !post.queue.all.has(post)) return null;
    const order = orderFor(world, post);
    if (typeof order !== "string") return order;
    end(post, "dropped", order);
    return null;
  };
  const beside = async (
    post: PendingPost,
    afterMs: number,
    spoil: (order: PostOrder) => PostOrder,
  ): Promise<void> => {
    sidePosts += 1;
    if (afterMs > 0) await passed(afterMs);
    await post.queue.run(async () => {
      const order = orderFor(world, post);
      if (typeof order !== "string") await poster.post(spoil(order));
    });
    sidePosts -= 1;
    wake();
  };
  /** How long to wait for the next try; null: there is none. */
  const attempt = async (post: PendingPost, order: PostOrder | null): Promise<number | null> => {
    if (order === null) return null;
    const { delivery } = post;
    post.isPosting = true;
    const answer = await poster.post(order);
    post.isPosting = false;
    // The record stays `waiting`: after a restart it is posted again.
    if (answer === null) return null;
    delivery.tries += 1;
    delivery.answered = answer.kind === "answered" ? answer.status : null;
    const { status, reason, waitMs } = afterTry(
      answer,
      delivery.tries,
      retry,
      speed,
      baseClock.now(),
    );
    if (status !== "waiting") end(post, status, reason);
    // The webhook may have been deleted meanwhile.
    if (waitMs === null || orderOf(post) === null) return null;
    world.deliveries.update(delivery, { reason, nextAt: clock.now() + waitMs });
    return waitMs;
  };
  const firstTry = async (post: PendingPost): Promise<number | null> => {
    const order = orderOf(post);
    if (order === null) return null;
    const { queue, line, faults } = post;
    const { duplicateAfterMs, malformed, wrongSignature } = faults;
    if (duplicateAfterMs !== null) void beside(post, duplicateAfterMs / speed, (right) => right);
    if (malformed !== null)
      void beside(post, 0, (right) => malformedOrder(right, malformed, random));
    post.isPosting = true;
    if (wrongSignature) await poster.post({ ...order, sort: "wrongly-signed" });
    const waitMs = await attempt(post, order);
    const held = queue.held.get(line);
    // Ids grow: a smaller one is an earlier event.
    if (held !== undefined && held.eventId < order.eventId) held.release();
    return waitMs;
  };
  const follow = async (
    delivery: DeliveryRecord,
    faults: DeliveryFaults,
    firstMs: number,
  ): Promise<void> => {
    const event = world.events.get(delivery.eventId);
    const queue = queues.of(delivery.webhookId);
    const post = {
      delivery,
      queue,
      line: event?.wamid ?? event?.runId ?? delivery.eventId,
      faults,
      isPosting: false,
    };
    queue.all.add(post);
    if (firstMs > 0) await passed(firstMs);
    if (faults.reorder) await hold(post, (release) => clock.after(longestHoldMs / speed, release));
    let waitMs = delivery.tries === 0 ? await queue.run(() => firstTry(post), post.line) : 0;
    while (waitMs !== null) {
      if (waitMs > 0) await passed(waitMs);
      waitMs = await queue.run(() => attempt(post, orderOf(post)));
    }
  };
  return {
    add(delivery: DeliveryRecord, faults: DeliveryFaults): void {
      const heldMs = faults.delayMs + (faults.reorder ? longestHoldMs / speed : 0);
      if (heldMs > 0) world.deliveries.update(delivery, { nextAt: clock.now() + heldMs });
      void follow(delivery, faults, faults.delayMs);
    },
    waitingFor: (webhookId: string) => queues.of(webhookId).all.size,
    resume(): void {
      const left = [...world.deliveries.all()].filter(({ status }) => status === "waiting");
      // Faults were drawn before the restart, and are over.
      for (const delivery of left.sort((a, b) => (a.id < b.id ? -1 : 1)))
        void follow(delivery, noFaults, delivery.nextAt - clock.now());
    },
    /**
     * After a webhook was disabled or deleted: drops what waits for it. A post in flight ends with
     * its answer.
     */
    webhookChanged(webhookId: string): void {
      for (const post of queues.of(webhookId).all) if (!post.isPosting) orderOf(post);
    },
    waiting,
    idle(): Promise<void> {
      const { promise, resolve } = Promise.withResolvers<void>();
      idlers.push(resolve);
      wake();
      return promise;
    },
    /** What has not ended stays `waiting` in the records, for `resume`. */
    async close(): Promise<void> {
      isClosed = true;
      await poster.close();
      wake();
    },
  };
}

async function hold(
  { delivery: { eventId }, queue: { held }, line }: PendingPost,
  atLatest: (release: () => void) => void,
): Promise<void> {
  if (held.has(line)) return;
  await new Promise<void>((release) => {
    held.set(line, { eventId, release });
    atLatest(release);
  });
  held.delete(line);
}

function malformedOrder(
  right: PostOrder,
  malformed: NonNullable<DeliveryFaults["malformed"]>,
  random: Random,
): PostOrder {
  const event = JSON.parse(right.body.toString("utf8")) as SandboxEvent;
  return {
    ...right,
    body: malformedBody(event, malformed, random.fork(event.id)),
    sort: "malformed",
  };
}

/**
 * Text says why nothing is posted. The webhook is read at each post: a rotated secret applies at
 * once.
 */
function orderFor(world: World, { delivery, faults }: PendingPost): PostOrder | string {
  const webhook = world.webhooks.get(delivery.webhookId);
  if (webhook === undefined) return "webhook deleted";
  if (!webhook.isEnabled) return "webhook disabled";
  const event = world.events.get(delivery.eventId);
  if (event === undefined) return "event forgotten";
  const body = faults.truncate ? truncatedBody(event.body) : Buffer.from(event.body, "utf8");
  return { webhook, eventId: event.id, body, sort: "event" };
}

/**
 * Does work that does not reject: at most `limit` at once, and of each line one after the other.
 */
function createLane(limit: number) {
  const lines = new Map<string, Promise<unknown>>();
  const ready: (() => void)[] = [];
  let free = limit;
  const run = async <T>(work: () => Promise<T>): Promise<T> => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => ready.push(resolve));
    const done = await work();
    const next = ready.shift();
    if (next === undefined) free += 1;
    else next();
    return done;
  };
  return async <T>(work: () => Promise<T>, line?: string): Promise<T> => {
    if (line === undefined) return run(work);
    const done = lines.get(line)?.then(() => run(work)) ?? run(work);
    lines.set(line, done);
    const result = await done;
    if (lines.get(line) === done) lines.delete(line);
    return result;
  };
}
