import type { LastPass } from "../../model/poll.ts";
import type { Work } from "../sql/ops.ts";
import { list, put } from "./state.ts";

const prefix = "reconciled/";

/** Replaces the account's last reconciliation pass. */
export function* notePass(pass: LastPass): Work<void> {
  yield* put(`${prefix}${pass.account}`, pass);
}

export function* lastPasses(): Work<readonly LastPass[]> {
  return (yield* list<LastPass>(prefix)).map(({ value }) => value);
}
