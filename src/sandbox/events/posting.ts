import type { Clock } from "../../model/clock.ts";
import type { Random } from "../random.ts";
import type { World } from "../world/world.ts";
import { afterTry, type EventRetry } from "./after-try.ts";
import { note, type PendingPost, pendingPostOf } from "./pending-post.ts";
import { createPendingPosts } from "./pending-posts.ts";
import type { Posting } from "./port.ts";
import { orderFor } from "./post-order.ts";
import type { Poster, PostOrder } from "./poster.ts";
import { createSidePosts } from "./side-posts.ts";

export interface PostingSettings {
  readonly world: World;
  /** World time: retries, and what faults hold back. */
  readonly clock: Clock;
  readonly baseClock: Clock;
  readonly random: Random;
  readonly poster: Poster;
  readonly retry: EventRetry;
  readonly speed: number;
  /** Posts in flight to one URL. */
  readonly atOnce: number;
  /** Deliveries that may wait for one URL. */
  readonly mostWaiting: number;
  /** Receives unforeseen errors. */
  readonly onError: (error: unknown) => void;
}

/** Longest that a delivery is held back for a later event to overtake it, at speed 1: the sandbox's choice. */
const longestHoldMs = 10_000;

export interface DeliveryPosting extends Posting {
  /** Takes a delivery whose record is `waiting`. */
  add(post: PendingPost): void;
  hasRoom(webhookId: string): boolean;
}

/**
 * The way of a delivery: held back (by faults only) → in its message's line → first try → waits → next try → …
 * It may end at each step. The records say how far it is, so that a restart can go on from there.
 */
export function createPosting(settings: PostingSettings): DeliveryPosting {
  const { world, clock, baseClock, poster, retry, speed, atOnce, mostWaiting, onError } = settings;
  const pending = createPendingPosts(atOnce, onError);
  let isClosed = false;
  let idlers: (() => void)[] = [];

  const waiting = () => pending.total + sidePosts.count;
  const wakeIdlers = (): void => {
    if (!isClosed && waiting() > 0) return;
    const woken = idlers;
    idlers = [];
    for (const wake of woken) wake();
  };
  const sidePosts = createSidePosts({ ...settings, onEnd: wakeIdlers });
  const end = (post: PendingPost, status: "delivered" | "failed" | "dropped", reason: string | null): void => {
    pending.remove(post);
    note(world, post, { status, reason });
    wakeIdlers();
  };
  const dropGone = (webhookId: string): void => {
    const webhook = world.webhooks.get(webhookId);
    if (webhook?.isEnabled === true) return;
    for (const post of pending.of(webhookId).all) {
      // A post in flight may still arrive; it ends with its answer.
      if (!post.isPosting) end(post, "dropped", webhook === undefined ? "webhook deleted" : "webhook disabled");
    }
    if (webhook !== undefined) return;
    poster.forget(webhookId);
    pending.forget(webhookId);
  };
  const orderOf = (post: PendingPost): PostOrder | null => {
    if (isClosed || !pending.has(post)) return null;
    const order = orderFor(world, post);
    if (typeof order !== "string") return order;
    end(post, "dropped", order);
    return null;
  };
  const laneOf = (post: PendingPost) => pending.of(post.delivery.webhookId).lane;
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
    if (post.line !== null) pending.of(post.delivery.webhookId).overtaking.passed(post.line, order.eventId);
  };
  const first = (post: PendingPost) => laneOf(post).add(() => postFirst(post), post.line);
  const hold = (post: PendingPost): void => {
    const { eventId, webhookId } = post.delivery;
    // An event of no message has nothing that could overtake it but time.
    const line = post.line ?? eventId;
    const { overtaking } = pending.of(webhookId);
    const isHeld = overtaking.hold(line, eventId, () => first(post));
    if (isHeld) clock.after(longestHoldMs / speed, () => overtaking.giveUp(line, eventId));
    else first(post);
  };
  return {
    add(post) {
      pending.add(post);
      const { delayMs, reorder } = post.faults;
      const begin = () => (reorder ? hold(post) : first(post));
      const heldMs = delayMs + (reorder ? longestHoldMs / speed : 0);
      if (heldMs > 0) note(world, post, { nextAt: clock.now() + heldMs });
      if (delayMs > 0) clock.after(delayMs, begin);
      else begin();
    },
    hasRoom: (webhookId) => pending.of(webhookId).all.size < mostWaiting,
    resume() {
      const left = [...world.deliveries.all()].filter(({ status }) => status === "waiting");
      // Ids grow: the older event goes first.
      for (const delivery of left.sort((a, b) => (a.id < b.id ? -1 : 1))) {
        const event = world.events.get(delivery.eventId);
        // Faults were drawn before the restart, and are over.
        const post = pendingPostOf(delivery, event);
        pending.add(post);
        const go = delivery.tries === 0 ? first : again;
        const waitMs = delivery.nextAt - clock.now();
        if (waitMs > 0) clock.after(waitMs, () => go(post));
        else go(post);
      }
    },
    webhookChanged: dropGone,
    waiting() {
      for (const webhookId of pending.webhooks()) dropGone(webhookId);
      return waiting();
    },
    idle() {
      return new Promise((resolve) => {
        idlers.push(resolve);
        for (const webhookId of pending.webhooks()) dropGone(webhookId);
        wakeIdlers();
      });
    },
    async close() {
      isClosed = true;
      await poster.close();
      wakeIdlers();
    },
  };
}
