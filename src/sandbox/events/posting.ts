import type { Clock } from "../../model/clock.ts";
import type { Random } from "../ids.ts";
import type { DeliveryRecord, EventRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { afterTry, type EventRetry } from "./after-try.ts";
import { type DeliveryFaults, malformedBody, noFaults } from "./delivery-faults.ts";
import { type SandboxEvent, truncatedBody } from "./event-maker.ts";
import type { Poster, PostOrder } from "./poster.ts";

interface PostingSettings {
  readonly world: World;
  readonly clock: Clock;
  readonly baseClock: Clock;
  readonly random: Random;
  readonly poster: Poster;
  readonly retry: EventRetry;
  readonly speed: number;
  readonly atOnce: number;
  readonly mostWaiting: number;
  readonly onError: (error: unknown) => void;
}

/** The sandbox's choice, at speed 1. */
const longestHoldMs = 10_000;

export type Posting = ReturnType<typeof createPosting>;

/**
 * A delivery is held back (by faults only) → in its message's line → tried → waits → tried again …, and may end at each step. The
 * records say how far it is, for a restart.
 */
export function createPosting(settings: PostingSettings) {
  const { world, clock, baseClock, poster, retry, speed, atOnce, mostWaiting, onError } = settings;
  const queues = new Map<string, UrlQueue>();
  let isClosed = false;

  const queueOf = ({ webhookId }: Pick<DeliveryRecord, "webhookId">): UrlQueue => {
    const queue = queues.get(webhookId) ?? { lane: createLane(atOnce, onError), overtaking: createOvertaking(), all: new Set() };
    queues.set(webhookId, queue);
    return queue;
  };
  const waiting = () => [...queues.values()].reduce((sum, { all }) => sum + all.size, sidePosts.count);
  const idlers = createIdlers(() => isClosed || waiting() === 0);
  const sidePosts = createSidePosts({ ...settings, onEnd: idlers.wake });
  const end = (post: PendingPost, status: "delivered" | "failed" | "dropped", reason: string | null): void => {
    queueOf(post.delivery).all.delete(post);
    note(world, post, { status, reason });
    idlers.wake();
  };
  const dropGone = (webhookId: string): void => {
    const webhook = world.webhooks.get(webhookId);
    if (webhook?.isEnabled === true) return;
    for (const post of queues.get(webhookId)?.all ?? []) {
      // A post in flight may still arrive; it ends with its answer.
      if (!post.isPosting) end(post, "dropped", webhook === undefined ? "webhook deleted" : "webhook disabled");
    }
    if (webhook !== undefined) return;
    poster.forget(webhookId);
    if (queues.get(webhookId)?.all.size === 0) queues.delete(webhookId);
  };
  const orderOf = (post: PendingPost): PostOrder | null => {
    if (isClosed || !queueOf(post.delivery).all.has(post)) return null;
    const order = orderFor(world, post);
    if (typeof order !== "string") return order;
    end(post, "dropped", order);
    return null;
  };
  const laneOf = (post: PendingPost) => queueOf(post.delivery).lane;
  const again = (post: PendingPost) => laneOf(post).add(() => attempt(post, orderOf(post)));
  const attempt = async (post: PendingPost, order: PostOrder | null): Promise<void> => {
    if (order === null) return;
    post.isPosting = true;
    const answer = await poster.post(order);
    post.isPosting = false;
    // The record stays `waiting`: after a restart it is posted again.
    if (answer.kind === "cut") return;
    const { delivery } = post;
    delivery.tries += 1;
    delivery.answered = answer.kind === "answered" ? answer.status : null;
    const next = afterTry(answer, delivery.tries, retry, speed, baseClock.now());
    if (next.status !== "waiting") return end(post, next.status, next.status === "failed" ? next.reason : null);
    note(world, post, { reason: next.reason, nextAt: clock.now() + next.waitMs });
    clock.after(next.waitMs, () => again(post));
    // The webhook may have been deleted meanwhile.
    dropGone(delivery.webhookId);
  };
  const postFirst = async (post: PendingPost): Promise<void> => {
    const order = orderOf(post);
    if (order === null) return;
    sidePosts.begin(post, laneOf(post));
    post.isPosting = true;
    if (post.faults.wrongSignature) await poster.post({ ...order, signature: "wrong" });
    await attempt(post, order);
    if (post.line !== null) queueOf(post.delivery).overtaking.passed(post.line, order.eventId);
  };
  const first = (post: PendingPost) => laneOf(post).add(() => postFirst(post), post.line);
  const hold = (post: PendingPost): void => {
    const { eventId } = post.delivery;
    const line = post.line ?? eventId;
    const { overtaking } = queueOf(post.delivery);
    const isHeld = overtaking.hold(line, eventId, () => first(post));
    if (isHeld) clock.after(longestHoldMs / speed, () => overtaking.giveUp(line, eventId));
    else first(post);
  };
  return {
    add(post: PendingPost): void {
      queueOf(post.delivery).all.add(post);
      const { delayMs, reorder } = post.faults;
      const begin = () => (reorder ? hold(post) : first(post));
      const heldMs = delayMs + (reorder ? longestHoldMs / speed : 0);
      if (heldMs > 0) note(world, post, { nextAt: clock.now() + heldMs });
      if (delayMs > 0) clock.after(delayMs, begin);
      else begin();
    },
    hasRoom: (webhookId: string) => queueOf({ webhookId }).all.size < mostWaiting,
    resume(): void {
      const left = [...world.deliveries.all()].filter(({ status }) => status === "waiting");
      for (const delivery of left.sort((a, b) => (a.id < b.id ? -1 : 1))) {
        const event = world.events.get(delivery.eventId);
        // Faults were drawn before the restart, and are over.
        const post = pendingPostOf(delivery, event);
        queueOf(delivery).all.add(post);
        const go = delivery.tries === 0 ? first : again;
        const waitMs = delivery.nextAt - clock.now();
        if (waitMs > 0) clock.after(waitMs, () => go(post));
        else go(post);
      }
    },
    /** After a webhook was disabled or deleted: drops what waits for it. */
    webhookChanged: dropGone,
    /** Deliveries and side posts that have not ended. */
    waiting(): number {
      for (const webhookId of [...queues.keys()]) dropGone(webhookId);
      return waiting();
    },
    idle(): Promise<void> {
      const idle = idlers.wait();
      for (const webhookId of [...queues.keys()]) dropGone(webhookId);
      idlers.wake();
      return idle;
    },
    /** What has not ended stays `waiting` in the records, for `resume`. */
    async close(): Promise<void> {
      isClosed = true;
      await poster.close();
      idlers.wake();
    },
  };
}

/** Those who wait until nothing is left to post. */
function createIdlers(isIdle: () => boolean) {
  let idlers: (() => void)[] = [];
  return {
    wait: (): Promise<void> => new Promise((resolve) => idlers.push(resolve)),
    wake(): void {
      if (idlers.length === 0 || !isIdle()) return;
      const woken = idlers;
      idlers = [];
      for (const wake of woken) wake();
    },
  };
}

interface SidePostsSettings {
  readonly world: World;
  readonly clock: Clock;
  readonly random: Random;
  readonly poster: Poster;
  readonly speed: number;
  readonly onEnd: () => void;
}

/** Posts that faults add beside a delivery: once each, and on no record. */
function createSidePosts({ world, clock, random, poster, speed, onEnd }: SidePostsSettings) {
  let count = 0;
  const plan = (post: PendingPost, lane: Lane, afterMs: number, spoil: (order: PostOrder) => PostOrder): void => {
    const work = async () => {
      try {
        const order = orderFor(world, post);
        if (typeof order !== "string") await poster.post(spoil(order));
      } finally {
        count -= 1;
        onEnd();
      }
    };
    count += 1;
    if (afterMs === 0) lane.add(work);
    else clock.after(afterMs, () => lane.add(work));
  };
  return {
    begin(post: PendingPost, lane: Lane): void {
      const { duplicateAfterMs, malformed } = post.faults;
      if (duplicateAfterMs !== null) plan(post, lane, duplicateAfterMs / speed, (order) => order);
      if (malformed === null) return;
      plan(post, lane, 0, (order) => {
        const event = JSON.parse(order.body.toString("utf8")) as SandboxEvent;
        return { ...order, body: malformedBody(event, malformed, random.fork(event.id)), isMalformed: true };
      });
    },
    get count(): number {
      return count;
    },
  };
}

interface UrlQueue {
  readonly lane: Lane;
  readonly overtaking: ReturnType<typeof createOvertaking>;
  readonly all: Set<PendingPost>;
}

export interface PendingPost {
  readonly delivery: DeliveryRecord;
  /** Events of one message or run keep their order; null: of none. */
  readonly line: string | null;
  readonly faults: DeliveryFaults;
  isPosting: boolean;
}

export function pendingPostOf(delivery: DeliveryRecord, event: EventRecord | undefined, faults: DeliveryFaults = noFaults): PendingPost {
  return { delivery, line: event?.wamid ?? event?.runId ?? null, faults, isPosting: false };
}

function note(world: World, { delivery }: PendingPost, change: Partial<DeliveryRecord>): void {
  Object.assign(delivery, change);
  if (world.deliveries.get(delivery.id) !== undefined) world.deliveries.put(delivery);
}

/** Holds deliveries back until a later event of the same message has overtaken them: one of a message at a time. */
function createOvertaking() {
  const held = new Map<string, { readonly eventId: string; readonly release: () => void }>();
  const releaseIf = (line: string, isDue: (eventId: string) => boolean): void => {
    const one = held.get(line);
    if (one === undefined || !isDue(one.eventId)) return;
    held.delete(line);
    one.release();
  };
  return {
    /** Calls `release` when a later event of `line` was tried. False: one of `line` is held already. */
    hold(line: string, eventId: string, release: () => void): boolean {
      if (held.has(line)) return false;
      held.set(line, { eventId, release });
      return true;
    },
    // Ids grow: a greater one is a later event.
    passed: (line: string, passer: string) => releaseIf(line, (eventId) => eventId < passer),
    giveUp: (line: string, waited: string) => releaseIf(line, (eventId) => eventId === waited),
  };
}

/** Text says why nothing is posted. */
function orderFor(world: World, { delivery, faults }: PendingPost): PostOrder | string {
  const webhook = world.webhooks.get(delivery.webhookId);
  if (webhook === undefined) return "webhook deleted";
  if (!webhook.isEnabled) return "webhook disabled";
  const event = world.events.get(delivery.eventId);
  if (event === undefined) return "event forgotten";
  const body = faults.truncate ? truncatedBody(event.body) : Buffer.from(event.body, "utf8");
  return { webhook, eventId: event.id, body, signature: "right" };
}

interface Lane {
  /** Runs once a place is free and earlier work of the line has ended. */
  add(work: () => Promise<void>, line?: string | null): void;
}

interface Job {
  readonly work: () => Promise<void>;
  readonly line: string | null;
}

/** At most `limit` at once. `onError` receives the error of work that rejects. */
export function createLane(limit: number, onError: (error: unknown) => void): Lane {
  let ready: Job[] = [];
  let taken = 0;
  let running = 0;
  const lines = new Map<string, Job[]>();

  const take = (): Job | undefined => {
    const job = ready[taken];
    if (job === undefined) return undefined;
    taken += 1;
    // Shifting a long array moves all of it each time.
    if (taken >= 1_024 && taken * 2 >= ready.length) {
      ready = ready.slice(taken);
      taken = 0;
    }
    return job;
  };
  const end = ({ line }: Job): void => {
    running -= 1;
    if (line !== null) {
      const behind = lines.get(line)?.shift();
      if (behind === undefined) lines.delete(line);
      else ready.push(behind);
    }
    runReady();
  };
  const runReady = (): void => {
    while (running < limit) {
      const job = take();
      if (job === undefined) return;
      running += 1;
      const ended = () => end(job);
      job.work().catch(onError).then(ended);
    }
  };
  return {
    add(work, line = null) {
      const job = { work, line };
      const behind = line === null ? undefined : lines.get(line);
      if (behind !== undefined) {
        behind.push(job);
        return;
      }
      if (line !== null) lines.set(line, []);
      ready.push(job);
      runReady();
    },
  };
}
