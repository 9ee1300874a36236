import type { Clock } from "../../model/clock.ts";
import type { Random } from "../random.ts";
import type { World } from "../world/world.ts";
import type { SandboxEvent } from "./event-maker.ts";
import type { Lane } from "./lane.ts";
import { malformedBody } from "./malformed.ts";
import type { PendingPost } from "./pending-post.ts";
import { orderFor } from "./post-order.ts";
import type { Poster, PostOrder } from "./poster.ts";

/** Posts beside a delivery that faults ask for: once each, whatever the answer, and on no record. */
export interface SidePosts {
  /** Called when the first try of `post` begins. */
  begin(post: PendingPost, lane: Lane): void;
  /** Planned or in flight. */
  readonly count: number;
}

export interface SidePostsSettings {
  readonly world: World;
  readonly clock: Clock;
  readonly random: Random;
  readonly poster: Poster;
  readonly speed: number;
  readonly onEnd: () => void;
}

export function createSidePosts({ world, clock, random, poster, speed, onEnd }: SidePostsSettings): SidePosts {
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
    begin(post, lane) {
      const { duplicateAfterMs, malformed } = post.faults;
      if (duplicateAfterMs !== null) plan(post, lane, duplicateAfterMs / speed, (order) => order);
      if (malformed === null) return;
      plan(post, lane, 0, (order) => {
        const event = JSON.parse(order.body.toString("utf8")) as SandboxEvent;
        return { ...order, body: malformedBody(event, malformed, random.fork(event.id)), isMalformed: true };
      });
    },
    get count() {
      return count;
    },
  };
}
