import type { Redis } from "ioredis";
import type { AttemptError } from "../../event/delivery.ts";
import { redisErrorText, redisFaultOf } from "../../event/redis-fault.ts";
import type { AttemptOutcome } from "./destination.ts";
import { LinkDown, type RedisLink } from "./redis-link.ts";
import { UnderWay } from "./under-way.ts";

/** Runs the attempts of one destination on its link. */
export interface RedisAttempts {
  /** One attempt: `command` gives what is kept as the response. Never rejects. */
  run(signal: AbortSignal, command: (redis: Redis) => Promise<string | null>): Promise<AttemptOutcome>;
  /** Ends what is under way as `aborted`. */
  close(): void;
}

/** `timeout` in milliseconds is the limit for one attempt. An attempt it cuts off may have been made all the same. */
export function createRedisAttempts(link: RedisLink, timeout: number): RedisAttempts {
  const underWay = new UnderWay();
  let isClosed = false;

  return {
    run(signal, command) {
      if (isClosed || signal.aborted) return Promise.resolve(failed("aborted", stopping, 0));
      const { promise, resolve } = Promise.withResolvers<AttemptOutcome>();
      const startedAt = performance.now();
      const tookMs = () => Math.round(performance.now() - startedAt);
      const end = (outcome: AttemptOutcome) => {
        clearTimeout(deadline);
        underWay.remove(attempt);
        resolve(outcome);
      };
      const attempt = { signal, index: -1, abort: () => end(failed("aborted", stopping, tookMs())) };
      const deadline = setTimeout(() => end(failed("hung", `Redis does not answer within ${timeout} ms`, tookMs())), timeout);
      underWay.add(attempt);
      link
        .ready()
        .then(command)
        .then(
          (response) => end(taken(response, tookMs())),
          (error: unknown) => end(failureOf(error, tookMs())),
        );
      return promise;
    },
    close() {
      isClosed = true;
      underWay.abortAll();
    },
  };
}

const stopping = "the relay was shutting down";

function taken(response: string | null, tookMs: number): AttemptOutcome {
  return { result: { kind: "taken" }, tookMs, response: response === null ? null : Buffer.from(response) };
}

function failed(error: AttemptError, text: string, tookMs: number): AttemptOutcome {
  return { result: { kind: "failed", error }, tookMs, response: Buffer.from(text) };
}

function failureOf(error: unknown, tookMs: number): AttemptOutcome {
  if (error instanceof LinkDown) return failed(error.fault.kind, error.fault.message, tookMs);
  const fault = redisFaultOf(error);
  // Redis is well, and what it says is about this one command, such as a key that holds something else.
  if (fault === null) return failed("refused", redisErrorText(error), tookMs);
  return failed(fault.kind, `${fault.message}${fault.mayBeDone ? "; it may have been done" : ""}`, tookMs);
}
