import type { Clock } from "../../model/clock.ts";
import type { Random } from "../random.ts";
import type { World } from "../world/world.ts";
import type { SandboxEvent } from "./event-maker.ts";
import type { Lane } from "./lane.ts";
import { malformedBody } from "./malformed.ts";
import type { Owed } from "./owed.ts";
import { orderFor } from "./post-order.ts";
import type { Poster, PostOrder } from "./poster.ts";

/** Posts beside a delivery that faults ask for: once each, whatever the answer, and on no record. */
export interface SidePosts {
  /** Called when the first try of `owed` begins. */
  begin(owed: Owed, lane: Lane): void;
  /** Planned or under way. */
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
  const plan = (owed: Owed, lane: Lane, afterMs: number, spoil: (order: PostOrder) => PostOrder): void => {
    const work = async () => {
      try {
        const order = orderFor(world, owed);
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
    begin(owed, lane) {
      const { duplicateAfterMs, malformed } = owed.faults;
      if (duplicateAfterMs !== null) plan(owed, lane, duplicateAfterMs / speed, (order) => order);
      if (malformed === null) return;
      plan(owed, lane, 0, (order) => {
        const event = JSON.parse(order.body.toString("utf8")) as SandboxEvent;
        return { ...order, body: malformedBody(event, malformed, random.fork(event.id)), isMalformed: true };
      });
    },
    get count() {
      return count;
    },
  };
}
