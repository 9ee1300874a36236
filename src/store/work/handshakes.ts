import type { Work } from "../sql/ops.ts";
import { list, put } from "./state.ts";

const prefix = "handshake/";

/** When destinations last answered a handshake right, in unix ms, by the fingerprint of URL and token. */
export function* handshakes(): Work<ReadonlyMap<string, number>> {
  return new Map((yield* list<number>(prefix)).map(({ name, value }) => [name, value]));
}

export function* noteHandshake(fingerprint: string, at: number): Work<void> {
  yield* put(`${prefix}${fingerprint}`, at);
}
