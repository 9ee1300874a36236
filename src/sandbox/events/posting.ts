import type { Clock } from "../../model/clock.ts";
import type { Random } from "../ids.ts";
import type { Core, DeliveryRecord, World } from "../world.ts";
import { type DeliveryFaults, malformedBody, noFaults } from "./delivery-faults.ts";
import { afterTry, type EventRetry, type Poster, type PostOrder } from "./poster.ts";
import { type SandboxEvent, truncatedBody } from "./publisher.ts";

interface PostingSettings {
  readonly poster: Poster;
  readonly retry: EventRetry;
  readonly atOnce: number;
}

const longestHoldMs = 10_000;

interface UrlQueue {
  readonly add: ReturnType<typeof createLane>;
  /** By line: held back until a later event of it was tried. */
  readonly held: Map<string, PendingPost>;
  readonly all: Set<PendingPost>;
}

interface PendingPost {
  readonly delivery: DeliveryRecord;
  /** Events of one message or run keep their order; null: of none. */
  readonly line: string | null;
  readonly faults: DeliveryFaults;
  isPosting: boolean;
}

export type Posting = ReturnType<typeof createPosting>;

/**
 * A delivery is held back (by faults only) → in its message's line → tried → waits → tried again …, and may end at each step. The
 * records say how far it is, for a restart. Side posts are what faults add: once each, and on no record.
 */
export function createPosting(core: Core, { poster, retry, atOnce }: PostingSettings) {
  const { world, clock, baseClock, random, speed } = core;
  const queues = new Map<string, UrlQueue>();
  const idlers: (() => void)[] = [];
  let sidePosts = 0;
  let isClosed = false;
  const queueOf = ({ webhookId }: Pick<DeliveryRecord, "webhookId">): UrlQueue => {
    const queue = queues.get(webhookId) ?? { add: createLane(atOnce), held: new Map(), all: new Set() };
    queues.set(webhookId, queue);
    return queue;
  };
  const waiting = () => [...queues.values()].reduce((sum, { all }) => sum + all.size, sidePosts);
  const wake = (): void => {
    if (idlers.length > 0 && (isClosed || waiting() === 0)) for (const idler of idlers.splice(0)) idler();
  };
  const end = (post: PendingPost, status: "delivered" | "failed" | "dropped", reason: string | null): void => {
    queueOf(post.delivery).all.delete(post);
    note(world, post, { status, reason });
    wake();
  };
  const orderOf = (post: PendingPost): PostOrder | null => {
    if (isClosed || !queueOf(post.delivery).all.has(post)) return null;
    const order = orderFor(world, post);
    if (typeof order !== "string") return order;
    end(post, "dropped", order);
    return null;
  };
  const again = (post: PendingPost) => queueOf(post.delivery).add(() => attempt(post, orderOf(post)));
  const attempt = async (post: PendingPost, order: PostOrder | null): Promise<void> => {
    if (order === null) return;
    post.isPosting = true;
    const answer = await poster.post(order);
    post.isPosting = false;
    // The record stays `waiting`: after a restart it is posted again.
    if (answer === null) return;
    const { delivery } = post;
    delivery.tries += 1;
    delivery.answered = answer.kind === "answered" ? answer.status : null;
    const next = afterTry(answer, delivery.tries, retry, speed, baseClock.now());
    if (next.status !== "waiting") return end(post, next.status, next.status === "failed" ? next.reason : null);
    // The webhook may have been deleted meanwhile.
    if (orderOf(post) === null) return;
    note(world, post, { reason: next.reason, nextAt: clock.now() + next.waitMs });
    clock.after(next.waitMs, () => again(post));
  };
  const beside = (post: PendingPost, afterMs: number, spoil: (order: PostOrder) => PostOrder): void => {
    sidePosts += 1;
    const work = async () => {
      const order = orderFor(world, post);
      if (typeof order !== "string") await poster.post(spoil(order));
      sidePosts -= 1;
      wake();
    };
    soon(clock, afterMs, () => queueOf(post.delivery).add(work));
  };
  const postFirst = async (post: PendingPost): Promise<void> => {
    const order = orderOf(post);
    if (order === null) return;
    const { duplicateAfterMs, malformed, wrongSignature } = post.faults;
    if (duplicateAfterMs !== null) beside(post, duplicateAfterMs / speed, (right) => right);
    if (malformed !== null) beside(post, 0, (right) => malformedOrder(right, malformed, random));
    post.isPosting = true;
    if (wrongSignature) await poster.post({ ...order, sort: "wrongly-signed" });
    await attempt(post, order);
    const held = queueOf(post.delivery).held.get(post.line ?? "");
    // Ids grow: a smaller one is an earlier event.
    if (held !== undefined && held.delivery.eventId < order.eventId) release(held);
  };
  const first = (post: PendingPost) => queueOf(post.delivery).add(() => postFirst(post), post.line);
  const release = (post: PendingPost): void => {
    const { held } = queueOf(post.delivery);
    if (held.get(lineOf(post)) !== post) return;
    held.delete(lineOf(post));
    first(post);
  };
  const hold = (post: PendingPost) => {
    const { held } = queueOf(post.delivery);
    if (held.has(lineOf(post))) return first(post);
    held.set(lineOf(post), post);
    clock.after(longestHoldMs / speed, () => release(post));
  };
  const pendingPost = (delivery: DeliveryRecord, faults = noFaults): PendingPost => {
    const post = { delivery, line: lineIn(world, delivery), faults, isPosting: false };
    queueOf(post.delivery).all.add(post);
    return post;
  };
  return {
    add(delivery: DeliveryRecord, faults: DeliveryFaults): void {
      const post = pendingPost(delivery, faults);
      const { delayMs, reorder } = faults;
      const heldMs = delayMs + (reorder ? longestHoldMs / speed : 0);
      if (heldMs > 0) note(world, post, { nextAt: clock.now() + heldMs });
      soon(clock, delayMs, () => (reorder ? hold(post) : first(post)));
    },
    waitingFor: (webhookId: string) => queueOf({ webhookId }).all.size,
    resume(): void {
      for (const delivery of [...world.deliveries.all()].sort((a, b) => (a.id < b.id ? -1 : 1))) {
        if (delivery.status !== "waiting") continue;
        // Faults were drawn before the restart, and are over.
        const post = pendingPost(delivery);
        soon(clock, delivery.nextAt - clock.now(), () => (delivery.tries === 0 ? first : again)(post));
      }
    },
    /** After a webhook was disabled or deleted: drops what waits for it. A post in flight ends with its answer. */
    webhookChanged(webhookId: string): void {
      for (const post of queueOf({ webhookId }).all) if (!post.isPosting) orderOf(post);
    },
    waiting,
    idle(): Promise<void> {
      const idle = new Promise<void>((resolve) => idlers.push(resolve));
      wake();
      return idle;
    },
    /** What has not ended stays `waiting` in the records, for `resume`. */
    async close(): Promise<void> {
      isClosed = true;
      await poster.close();
      wake();
    },
  };
}

function soon(clock: Clock, ms: number, run: () => void): void {
  if (ms > 0) clock.after(ms, run);
  else run();
}

function note(world: World, { delivery }: PendingPost, change: Partial<DeliveryRecord>): void {
  Object.assign(delivery, change);
  if (world.deliveries.get(delivery.id) !== undefined) world.deliveries.put(delivery);
}

function lineIn(world: World, { eventId }: DeliveryRecord): string | null {
  const event = world.events.get(eventId);
  return event?.wamid ?? event?.runId ?? null;
}

function lineOf({ line, delivery }: PendingPost): string {
  return line ?? delivery.eventId;
}

function malformedOrder(right: PostOrder, malformed: NonNullable<DeliveryFaults["malformed"]>, random: Random): PostOrder {
  const event = JSON.parse(right.body.toString("utf8")) as SandboxEvent;
  return { ...right, body: malformedBody(event, malformed, random.fork(event.id)), sort: "malformed" };
}

/** Text says why nothing is posted. The webhook is read at each post: a rotated secret applies at once. */
function orderFor(world: World, { delivery, faults }: PendingPost): PostOrder | string {
  const webhook = world.webhooks.get(delivery.webhookId);
  if (webhook === undefined) return "webhook deleted";
  if (!webhook.isEnabled) return "webhook disabled";
  const event = world.events.get(delivery.eventId);
  if (event === undefined) return "event forgotten";
  const body = faults.truncate ? truncatedBody(event.body) : Buffer.from(event.body, "utf8");
  return { webhook, eventId: event.id, body, sort: "event" };
}

/** Returns what adds work: at most `limit` is done at once, and of each line one after the other. Work must not reject. */
function createLane(limit: number) {
  const lines = new Map<string, Promise<void>>();
  const ready: (() => void)[] = [];
  let free = limit;
  const run = async (work: () => Promise<void>): Promise<void> => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => ready.push(resolve));
    await work();
    const next = ready.shift();
    if (next === undefined) free += 1;
    else next();
  };
  return async (work: () => Promise<void>, line: string | null = null): Promise<void> => {
    if (line === null) return run(work);
    const done = lines.get(line)?.then(() => run(work)) ?? run(work);
    lines.set(line, done);
    await done;
    if (lines.get(line) === done) lines.delete(line);
  };
}
