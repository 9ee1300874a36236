import type { StoredCursor } from "../port.ts";
import type { Work } from "../sql/ops.ts";
import { create, list, put, values } from "./state.ts";

/** The position of a named listener. `movedAt`: unix ms. */
type Position = Omit<StoredCursor, "name">;

/** Most named cursors. Above this, the one that has not moved for longest is deleted. */
const mostCursors = 1_000;

const prefix = "cursor/";
const keyOf = (name: string): string => `${prefix}${name}`;

/** Null: unknown listener. */
export function* findCursor(name: string): Work<number | null> {
  const [position] = yield* values<Position>([keyOf(name)]);
  return position?.seq ?? null;
}

/** The latest moved first. */
export function* listCursors(): Work<readonly StoredCursor[]> {
  const cursors = (yield* list<Position>(prefix)).map(({ name, value }) => ({ name, ...value }));
  return cursors.sort((a, b) => b.movedAt - a.movedAt);
}

/** Never moves back. Returns the current position. */
export function* moveCursor(name: string, seq: number, at: number): Work<number> {
  const [known = null] = yield* values<Position>([keyOf(name)], "update");
  const position = { seq: Math.max(seq, known?.seq ?? seq), movedAt: at };
  if (known !== null) yield* put(keyOf(name), position);
  else {
    const oldest = (yield* listCursors()).slice(mostCursors - 1);
    for (const cursor of oldest) yield* put(keyOf(cursor.name), null);
    yield* create(keyOf(name), position);
  }
  return position.seq;
}
