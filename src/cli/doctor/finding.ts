import { failureOf } from "../control-client.ts";
import { isForUser } from "../io.ts";

export interface Finding {
  readonly check: string;
  /** `skip`: not checked, for the reason in `message`. */
  readonly level: "ok" | "warn" | "fail" | "skip";
  readonly message: string;
  /** The remedy, where the message does not name it. */
  readonly todo?: string;
}

type Say = (check: string, message: string) => Finding;
type SayWithRemedy = (check: string, message: string, todo: string) => Finding;

export const ok: Say = (check, message) => ({ check, level: "ok", message });
export const skip: Say = (check, message) => ({ check, level: "skip", message });
export const warn: SayWithRemedy = (check, message, todo) => ({
  check,
  level: "warn",
  message,
  todo,
});
export const fail: SayWithRemedy = (check, message, todo) => ({
  check,
  level: "fail",
  message,
  todo,
});

/** What `run` finds. A request that the relay refuses is a failure of the check. */
export async function orFail(
  check: string,
  subject: string,
  todo: string,
  run: () => Promise<Finding[]>,
): Promise<Finding[]> {
  try {
    return await run();
  } catch (error) {
    const failure = failureOf(error);
    if (!isForUser(failure)) throw failure;
    return [fail(check, `${subject}${failure.message}`, todo)];
  }
}
