import type { SendingPort } from "../control/sending.ts";
import { RelayError } from "../model/errors.ts";
import { uuidv7 } from "../model/ids.ts";
import type { Caller } from "../send/once.ts";
import type { Sending } from "../send/sending.ts";
import type { CallCap } from "../service/admission.ts";
import type { LimiterState } from "../service/limits/limiter-state.ts";
import { untilRoom } from "./until-room.ts";

export interface SendingPortParts {
  readonly sending: Sending;
  readonly now: () => number;
  /** From the settings in force. */
  readonly known: () => { readonly accounts: readonly string[]; readonly maxWait: number };
  readonly limiters: () => ReadonlyMap<string, LimiterState>;
}

/** The control API's port over sending. */
export function createSendingPort({ sending, now, known, limiters }: SendingPortParts): SendingPort {
  function accountOf(given: string | undefined): string {
    const { accounts } = known();
    const [only, ...others] = accounts;
    if (given !== undefined && accounts.includes(given)) return given;
    if (given !== undefined) throw new RelayError("bad_request", `no account "${given}" in the settings`, accounts);
    if (only === undefined || others.length > 0) throw new RelayError("bad_request", "say which account sends", accounts);
    return only;
  }

  function callerOf(
    account: string,
    cap: CallCap,
    { gone, maxWait = known().maxWait }: { gone: AbortSignal; maxWait?: number | undefined },
  ): Caller {
    return {
      disconnected: gone,
      maxWait,
      tooLong: () =>
        new RelayError(
          "service_rate_limited",
          `the caps left no room within ${maxWait / 1000} s; nothing was sent`,
          { account },
          { retryAfterMs: untilRoom(limiters().get(account), cap, now()) },
        ),
    };
  }

  return {
    sendMessage({ account: given, key, ...order }, caller) {
      const account = accountOf(given);
      return sending.sendMessage({ ...order, account, key: key ?? uuidv7(now()) }, callerOf(account, "messages", caller));
    },
    startRun({ account: given, ...order }, caller) {
      const account = accountOf(given);
      return sending.startRun({ ...order, account }, callerOf(account, "requests", caller));
    },
  };
}
