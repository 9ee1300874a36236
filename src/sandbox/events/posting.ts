import type { Clock } from "../../model/clock.ts";
import type { Random } from "../random.ts";
import type { World } from "../world/world.ts";
import { afterTry, type EventRetry } from "./after-try.ts";
import { note, type Owed, owe } from "./owed.ts";
import { createOwing } from "./owing.ts";
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
  /** Posts under way to one URL. */
  readonly atOnce: number;
  /** Deliveries that may wait for one URL. */
  readonly mostWaiting: number;
  /** Hears of what nobody foresaw. */
  readonly onError: (error: unknown) => void;
}

/** Longest that a delivery is held back for a later event to overtake it, at speed 1: the sandbox's choice. */
const longestHoldMs = 10_000;

export interface DeliveryPosting extends Posting {
  /** Takes a delivery whose record is `waiting`. */
  add(owed: Owed): void;
  hasRoom(webhookId: string): boolean;
}

/**
 * The way of a delivery: held back (by faults only) → in its message's line → first try → waits → next try → …
 * It may end at each step. The records say how far it is, so that a restart can go on from there.
 */
export function createPosting(settings: PostingSettings): DeliveryPosting {
  const { world, clock, baseClock, poster, retry, speed, atOnce, mostWaiting, onError } = settings;
  const owing = createOwing(atOnce, onError);
  let isClosed = false;
  let idlers: (() => void)[] = [];

  const waiting = () => owing.total + sidePosts.count;
  const wakeIdlers = (): void => {
    if (!isClosed && waiting() > 0) return;
    const woken = idlers;
    idlers = [];
    for (const wake of woken) wake();
  };
  const sidePosts = createSidePosts({ ...settings, onEnd: wakeIdlers });
  const end = (owed: Owed, status: "delivered" | "failed" | "dropped", reason: string | null): void => {
    owing.remove(owed);
    note(world, owed, { status, reason });
    wakeIdlers();
  };
  const dropGone = (webhookId: string): void => {
    const webhook = world.webhooks.get(webhookId);
    if (webhook?.isEnabled === true) return;
    for (const owed of owing.of(webhookId).all) {
      // What is under way may still arrive; it ends with its answer.
      if (!owed.isPosting) end(owed, "dropped", webhook === undefined ? "webhook deleted" : "webhook disabled");
    }
    if (webhook !== undefined) return;
    poster.forget(webhookId);
    owing.forget(webhookId);
  };
  const orderOf = (owed: Owed): PostOrder | null => {
    if (isClosed || !owing.has(owed)) return null;
    const order = orderFor(world, owed);
    if (typeof order !== "string") return order;
    end(owed, "dropped", order);
    return null;
  };
  const laneOf = (owed: Owed) => owing.of(owed.delivery.webhookId).lane;
  const again = (owed: Owed) => laneOf(owed).add(() => post(owed, orderOf(owed)));
  const post = async (owed: Owed, order: PostOrder | null): Promise<void> => {
    if (order === null) return;
    owed.isPosting = true;
    const answer = await poster.post(order);
    owed.isPosting = false;
    // The record stays `waiting`: after a restart it is posted again.
    if (answer.kind === "cut") return;
    const { delivery } = owed;
    delivery.tries += 1;
    delivery.answered = answer.kind === "answered" ? answer.status : null;
    const next = afterTry(answer, delivery.tries, retry, speed, baseClock.now());
    if (next.status !== "waiting") return end(owed, next.status, next.status === "failed" ? next.reason : null);
    note(world, owed, { reason: next.reason, nextAt: clock.now() + next.waitMs });
    clock.after(next.waitMs, () => again(owed));
    // The webhook may have gone while this was under way.
    dropGone(delivery.webhookId);
  };
  const postFirst = async (owed: Owed): Promise<void> => {
    const order = orderOf(owed);
    if (order === null) return;
    sidePosts.begin(owed, laneOf(owed));
    owed.isPosting = true;
    if (owed.faults.wrongSignature) await poster.post({ ...order, signature: "wrong" });
    await post(owed, order);
    if (owed.line !== null) owing.of(owed.delivery.webhookId).overtaking.passed(owed.line, order.eventId);
  };
  const first = (owed: Owed) => laneOf(owed).add(() => postFirst(owed), owed.line);
  const hold = (owed: Owed): void => {
    const { eventId, webhookId } = owed.delivery;
    // An event of no message has nothing that could overtake it but time.
    const line = owed.line ?? eventId;
    const { overtaking } = owing.of(webhookId);
    const isHeld = overtaking.hold(line, eventId, () => first(owed));
    if (isHeld) clock.after(longestHoldMs / speed, () => overtaking.giveUp(line, eventId));
    else first(owed);
  };
  return {
    add(owed) {
      owing.add(owed);
      const { delayMs, reorder } = owed.faults;
      const begin = () => (reorder ? hold(owed) : first(owed));
      const heldMs = delayMs + (reorder ? longestHoldMs / speed : 0);
      if (heldMs > 0) note(world, owed, { nextAt: clock.now() + heldMs });
      if (delayMs > 0) clock.after(delayMs, begin);
      else begin();
    },
    hasRoom: (webhookId) => owing.of(webhookId).all.size < mostWaiting,
    resume() {
      const left = [...world.deliveries.all()].filter(({ status }) => status === "waiting");
      // Ids grow: the older event goes first.
      for (const delivery of left.sort((a, b) => (a.id < b.id ? -1 : 1))) {
        const event = world.events.get(delivery.eventId);
        // Faults were drawn before the restart, and are over.
        const owed = owe(delivery, event);
        owing.add(owed);
        const go = delivery.tries === 0 ? first : again;
        const waitMs = delivery.nextAt - clock.now();
        if (waitMs > 0) clock.after(waitMs, () => go(owed));
        else go(owed);
      }
    },
    webhookChanged: dropGone,
    waiting() {
      for (const webhookId of owing.webhooks()) dropGone(webhookId);
      return waiting();
    },
    idle() {
      return new Promise((resolve) => {
        idlers.push(resolve);
        for (const webhookId of owing.webhooks()) dropGone(webhookId);
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
