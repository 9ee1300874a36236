import { type RedisFault, type RedisFaultKind, redisErrorText, redisFaultOf } from "../../event/redis-fault.ts";
import { StoreRefused, StoreUnavailable } from "../port.ts";

/** Redis could not do what it was asked just now. */
export class RedisUnavailable extends StoreUnavailable {
  readonly kind: RedisFaultKind;
  /** True when it may have been done all the same: it was sent, and no answer came. */
  readonly mayBeDone: boolean;

  constructor({ kind, message, mayBeDone }: RedisFault) {
    super(message);
    this.kind = kind;
    this.mayBeDone = mayBeDone;
  }
}

/**
 * An error of a client of Redis as one of ours: `StoreUnavailable` where Redis is at fault, else one that says what was wrong
 * with the command. The client's own is left behind: it holds every argument, people's data among them.
 */
export function storeError(error: unknown): Error {
  if (error instanceof StoreUnavailable || error instanceof StoreRefused) return error;
  const fault = redisFaultOf(error);
  if (fault !== null) return new RedisUnavailable(fault);
  if (!(error instanceof Error)) return new Error(String(error));
  return "command" in error || error.name === "ReplyError" ? new Error(`Redis: ${redisErrorText(error)}`) : error;
}
