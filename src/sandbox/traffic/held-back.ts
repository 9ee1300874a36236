import type { Post } from "./post.ts";

export interface HeldBack {
  /** Holds `post` back until `place` in the sequence; a place already passed means the next chance. */
  add(place: number, post: Post): void;
  /** Gives back those whose place has come. */
  take(place: number): Generator<Post, void, undefined>;
  /** Gives back all that are left, in order of their places. */
  rest(): Generator<Post, void, undefined>;
}

/** Posts that wait for their place in the sequence. Memory: only the posts that wait. */
export function createHeldBack(): HeldBack {
  const byPlace = new Map<number, Post[]>();
  let next = 0;
  return {
    add(place, post) {
      const at = Math.max(place, next);
      const there = byPlace.get(at);
      if (there === undefined) byPlace.set(at, [post]);
      else there.push(post);
    },
    *take(place) {
      while (next <= place) {
        const there = byPlace.get(next);
        byPlace.delete(next);
        next += 1;
        if (there !== undefined) yield* there;
      }
    },
    *rest() {
      for (const [, there] of [...byPlace].sort(([a], [b]) => a - b)) yield* there;
      byPlace.clear();
    },
  };
}
