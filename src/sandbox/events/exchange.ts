import type { Dispatcher } from "undici";
import type { Clock } from "../../model/clock.ts";
import { mostInterim } from "../../net/connect.ts";
import type { Answer } from "./after-try.ts";

type Controller = Dispatcher.DispatchController;
type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2];

/** An answer's body is read to its end for the connection's sake, and up to here. It is not used. */
const mostAnswerBytes = 64 * 1024;

/**
 * One post and its answer under one deadline. The status line decides: an answer whose body does not end
 * counts as that answer. A class, because undici calls it back at each step and there is one for each post.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly #resolve: (answer: Answer) => void;
  readonly #timeoutMs: number;
  readonly #cancelDeadline: () => void;
  #controller: Controller | null = null;
  #isOver = false;
  #status = 0;
  #retryAfter: string | undefined;
  #read = 0;
  #interim = 0;

  constructor(clock: Clock, timeoutMs: number, resolve: (answer: Answer) => void) {
    this.#resolve = resolve;
    this.#timeoutMs = timeoutMs;
    this.#cancelDeadline = clock.after(timeoutMs, () => this.#expire());
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    // Time was up before there was a connection.
    if (this.#isOver) controller.abort(new Error("too late"));
  }

  onResponseStart(controller: Controller, status: number, headers: Headers): void {
    // 100 to 199 announce the answer and are none.
    if (status < 200) {
      this.#interim += 1;
      if (this.#interim <= mostInterim) return;
      this.#end(`more than ${mostInterim} interim answers (1xx)`);
      controller.abort(new Error("too many interim answers"));
      return;
    }
    this.#status = status;
    const retryAfter = headers["retry-after"];
    this.#retryAfter = typeof retryAfter === "string" ? retryAfter : retryAfter?.[0];
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    this.#read += chunk.length;
    if (this.#read <= mostAnswerBytes) return;
    this.#end("");
    controller.abort(new Error("the answer is too long"));
  }

  onResponseEnd(): void {
    this.#end("");
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    this.#end("code" in error && typeof error.code === "string" ? error.code : error.message);
  }

  #expire(): void {
    this.#end(`no answer within ${this.#timeoutMs} ms`);
    this.#controller?.abort(new Error("no answer in time"));
  }

  #end(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelDeadline();
    this.#resolve(
      this.#status === 0
        ? { kind: "unanswered", reason: reason.slice(0, 200) }
        : { kind: "answered", status: this.#status, retryAfter: this.#retryAfter },
    );
  }
}
