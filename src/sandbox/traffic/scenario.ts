import type { Clock } from "../../model/clock.ts";
import type { RunId, Wamid } from "../../model/ids.ts";
import { malformations, malformedBody } from "../events/delivery-faults.ts";
import { bodyOf, createEventMaker, type SandboxEvent } from "../events/publisher.ts";
import { createPhones, createRandom, createWamids } from "../ids.ts";
import { drawLife, type LifeShares } from "../statuses.ts";
import type { Post, PostSort, PostSubject } from "./answers.ts";

export interface ScenarioSettings {
  readonly seed: number | string;
  readonly start: number;
  readonly messages: number;
  readonly mix?: Partial<ScenarioMix>;
  readonly lives?: LifeShares;
  readonly alive?: number;
  readonly window?: number;
  readonly campaignSize?: number;
}

/**
 * The same settings give the same posts, byte for byte. Lazy: holds at most `alive` messages and
 * the posts held back.
 */
export function* scenario(settings: ScenarioSettings): Generator<Post, void, undefined> {
  const { seed, start, messages, lives, alive = 32, window = 64, campaignSize = 50 } = settings;
  const mix = { ...usualMix, ...settings.mix };
  const random = createRandom(seed);
  let now = start;
  const make = createEventMaker({ clock: () => now, random: random.fork("ids") });
  const newWamid = createWamids(random.fork("wamids"));
  const phone = createPhones(random.fork("phones"));
  const held = createHeldBack();
  let place = 0;

  function* postEvent(event: SandboxEvent, sort: PostSort): Generator<Post> {
    const subject = subjectOf(event);
    const post: Post = {
      sort,
      body: bodyOf(event),
      signature: "right",
      subject,
      expected: { of: "event", id: event.id },
    };
    place += 1;
    if (random.chance(mix.outOfOrder)) held.add(place + 1 + random.below(window), post);
    else yield post;
    for (let copies = 1; copies <= 4 && random.chance(mix.duplicated); copies += 1) {
      held.add(random.chance(0.5) ? place : place + random.below(window), {
        ...post,
        sort: "duplicate",
      });
    }
    if (random.chance(mix.altered)) {
      const altered = bodyOf({ ...event, data: { ...event.data, resent: true } });
      held.add(place + random.below(window), { ...post, sort: "altered-duplicate", body: altered });
    }
    yield* held.take(place);
  }
  function* postRefused(
    event: SandboxEvent,
    post: Pick<Post, "sort" | "body" | "signature">,
  ): Generator<Post> {
    place += 1;
    const answer = post.sort === "malformed" ? "quarantined" : "unauthorized";
    yield { ...post, subject: subjectOf(event), expected: { of: "post", answer } };
    yield* held.take(place);
  }
  function* postBeside(status: SandboxEvent): Generator<Post> {
    if (random.chance(mix.automation)) {
      const done = random.chance(0.8);
      const event = done
        ? make.automationCompleted(make.runId())
        : make.automationFailed(make.runId(), "the template is no longer approved");
      yield* postEvent(event, "automation");
    }
    if (random.chance(mix.truncated)) {
      yield* postEvent(
        make.truncated("message.status", 256 * 1024 + 1 + random.below(10 ** 6)),
        "truncated",
      );
    }
    if (random.chance(mix.malformed)) {
      const event = make.messageStatus(newWamid(phone()), "sent");
      yield* postRefused(event, {
        sort: "malformed",
        body: malformedBody(event, random.pick(malformations), random),
        signature: "right",
      });
    }
    if (random.chance(mix.wronglySigned)) {
      // Half forge a real event, which must be taken all the same from the service.
      const forged = random.chance(0.5) ? status : make.messageStatus(newWamid(phone()), "read");
      yield* postRefused(forged, {
        sort: "wrongly-signed",
        body: bodyOf(forged),
        signature: random.chance(0.7) ? "wrong" : "absent",
      });
    }
    if (random.chance(mix.campaign)) {
      for (let sent = 0; sent < campaignSize; sent += 1) {
        const step = random.pick(["sent", "delivered", "read"]);
        yield* postEvent(make.messageStatus(newWamid(phone()), step), "campaign");
      }
    }
  }

  const living: { wamid: Wamid; steps: ReturnType<typeof drawLife>; next: number }[] = [];
  for (let born = 0; born < messages || living.length > 0; ) {
    while (living.length < alive && born < messages) {
      living.push({ wamid: newWamid(phone()), steps: drawLife(random, lives), next: 0 });
      born += 1;
    }
    const at = random.below(living.length);
    const message = living[at] as (typeof living)[number];
    const step = message.steps[message.next] as (typeof message.steps)[number];
    message.next += 1;
    if (message.next === message.steps.length) living.splice(at, 1);
    now += random.below(4);
    const event = make.messageStatus(message.wamid, step.status, step.errorCode);
    yield* postEvent(event, "status");
    yield* postBeside(event);
  }
  yield* held.take();
}

function subjectOf(event: SandboxEvent): PostSubject {
  const { wamid, runId } = event.data;
  return {
    id: event.id,
    event: event.event,
    wamid: (wamid as Wamid) ?? null,
    runId: (runId as RunId) ?? null,
  };
}

function createHeldBack() {
  let held: { readonly at: number; readonly post: Post }[] = [];
  return {
    add: (at: number, post: Post): void => void held.push({ at, post }),
    take(place = Number.POSITIVE_INFINITY): Post[] {
      const due = held.filter(({ at }) => at <= place);
      if (due.length > 0) held = held.filter(({ at }) => at > place);
      return due.sort((a, b) => a.at - b.at).map(({ post }) => post);
    },
  };
}

/** Probabilities. The first three are of an event, the others beside a status of our messages. */
const usualMix = {
  outOfOrder: 0.1,
  duplicated: 0.08,
  altered: 0.01,
  automation: 0.05,
  truncated: 0.005,
  malformed: 0.01,
  wronglySigned: 0.005,
  campaign: 0.005,
};
export type ScenarioMix = Readonly<typeof usualMix>;

export const plainMix = Object.fromEntries(
  Object.keys(usualMix).map((key) => [key, 0]),
) as ScenarioMix;

/**
 * Lets `rate` per second through, without a burst after a stall longer than `burstMs`. Undefined:
 * at once.
 */
export function createPace(
  rate: number,
  clock: Clock,
  burstMs = 100,
): () => Promise<void> | undefined {
  let due = clock.now();
  return () => {
    const now = clock.now();
    const turn = Math.max(due, now - burstMs);
    due = turn + 1000 / rate;
    return turn <= now
      ? undefined
      : new Promise((resolve) => void clock.after(turn - now, resolve));
  };
}

export interface TriggerScenario
  extends Pick<ScenarioSettings, "messages" | "mix" | "lives" | "campaignSize"> {
  readonly name: string;
  readonly description: string;
  readonly concurrency: number;
}

export const triggerScenarios: readonly TriggerScenario[] = [
  {
    name: "campaign-burst",
    description:
      "a few messages, and after each of their events 100 statuses of an unregistered campaign",
    messages: 4,
    mix: { campaign: 1 },
    campaignSize: 100,
    concurrency: 32,
  },
  {
    name: "out-of-order",
    description: "statuses overtake each other: read before delivered, sent last",
    messages: 20,
    mix: { outOfOrder: 0.6 },
    concurrency: 1,
  },
  {
    name: "failed-then-delivered",
    description: "messages fail on one device and are delivered to another of the same person",
    messages: 20,
    lives: { delivered: 0, failed: 0, failedThenDelivered: 1 },
    concurrency: 1,
  },
  {
    name: "duplicates-storm",
    description:
      "most events arrive several times at once, some with other bytes under the same id",
    messages: 20,
    mix: { duplicated: 0.75, altered: 0.2 },
    concurrency: 32,
  },
  {
    name: "bad-signatures",
    description: "forged and unsigned events, which must be refused, among valid ones",
    messages: 20,
    mix: { wronglySigned: 0.5 },
    concurrency: 4,
  },
];

export function scenarioPosts(
  named: TriggerScenario,
  given: Pick<ScenarioSettings, "seed" | "start">,
): Generator<Post, void, undefined> {
  return scenario({ window: 16, ...named, ...given, mix: { ...plainMix, ...named.mix } });
}
