import type { AttemptError } from "../../event/delivery.ts";

/** No connection came about, so nothing was sent. `message` is for the operator. */
export class ConnectionFailed extends Error {
  override readonly name = "ConnectionFailed";
  readonly error: AttemptError;

  constructor(error: AttemptError, message: string) {
    super(message);
    this.error = error;
  }
}
