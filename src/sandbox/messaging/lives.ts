import type { Publisher } from "../events/publisher.ts";
import type { Random } from "../ids.ts";
import { isReported, type MessageStatus, reaches, supersedes } from "../statuses.ts";
import type { FutureStep, MessageRecord } from "../world/records.ts";
import type { Core, World } from "../world/world.ts";
import { outcomeFor, stepsOf } from "./numbers.ts";

/** The only place that changes a status. */
export function createLives({ world, clock }: Core, publisher: Publisher) {
  const change = (message: MessageRecord, { status, errorCode }: Omit<FutureStep, "at">): void => {
    const before = { ...message };
    const now = clock.now();
    message.status = status;
    message.statusAt = now;
    delete message.errorCode;
    if (status === "failed" && errorCode !== undefined) message.errorCode = errorCode;
    if (reaches(status, "delivered")) message.deliveredAt ??= now;
    if (reaches(status, "read")) message.readAt ??= now;
    countMove(world, message, before);
  };
  const publish = (message: MessageRecord): void => {
    const { reports = 1 } = outcomeFor(message.phone);
    for (let report = 0; report < reports; report += 1) publisher.messageStatus(message);
  };
  const take = (message: MessageRecord, step: FutureStep): void => {
    message.future.shift();
    const isLate = !supersedes(message.status, step.status);
    if (!isLate) change(message, step);
    world.messages.put(message);
    // A late note is reported as what it says.
    publish(isLate ? { ...message, status: step.status } : message);
  };
  const follow = (message: MessageRecord): void => {
    const step = message.future[0];
    if (step === undefined) return;
    clock.after(Math.max(0, step.at - clock.now()), () => {
      // Called off meanwhile.
      if (message.future[0] !== step) return;
      take(message, step);
      follow(message);
    });
  };
  return {
    follow,
    /** Moves it now, backwards too; the rest of its life is called off. */
    move(message: MessageRecord, status: MessageStatus, errorCode?: string | number): void {
      message.future = [];
      change(message, { status, ...(errorCode !== undefined && { errorCode }) });
      world.messages.put(message);
      if (isReported(status)) publish(message);
    },
  };
}

/** Milliseconds after the step before, from and to, at speed 1. */
const waits: Readonly<Partial<Record<MessageStatus, readonly [number, number]>>> = {
  sent: [200, 1_000],
  delivered: [500, 4_000],
  read: [3_000, 60_000],
  failed: [300, 3_000],
};

/** `now` in unix milliseconds. The same `random` gives the same life. */
export function planLife(phone: string, { now, random, speed }: { now: number; random: Random; speed: number }): FutureStep[] {
  const outcome = outcomeFor(phone);
  let at = now;
  return stepsOf(outcome, random).map((step) => {
    const [least, most] = waits[step.status] ?? [0, 0];
    at += ((least + random.next() * (most - least)) * (outcome.slowness ?? 1)) / speed;
    return { ...step, at: Math.round(at) };
  });
}

function countMove(world: World, message: MessageRecord, before: Readonly<MessageRecord>): void {
  const campaign = world.campaigns.get(message.campaignId ?? "");
  if (campaign === undefined) return;
  if (message.deliveredAt !== undefined && before.deliveredAt === undefined) campaign.deliveries += 1;
  if (message.readAt !== undefined && before.readAt === undefined) campaign.reads += 1;
  if (message.status === "failed" && before.status !== "failed") campaign.failed += 1;
  if (message.status !== "failed" && before.status === "failed") campaign.failed -= 1;
  world.campaigns.put(campaign);
}
