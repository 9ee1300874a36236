import type { Work } from "../sql/ops.ts";
import { values } from "./state.ts";

/** In a store that is a copy, for as long as it is kept. */
export interface Copy {
  /** The id of the copied data. */
  readonly id: string;
  readonly from: string;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  /** The greatest seq of its events; absent until it is finished. */
  readonly lastEvent?: number;
}

export const copyKey = "store/copy";

/** The greatest seq of the events that were copied here; 0: none was. */
export function* lastCopied(): Work<number> {
  return (yield* values<Copy>([copyKey]))[0]?.lastEvent ?? 0;
}
