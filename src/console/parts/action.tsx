import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { errorText } from "../app/api.ts";
import { reportError } from "../app/session.tsx";
import { Dialog } from "./dialog.tsx";
import { count } from "./format.ts";
import { shapes, type Tone } from "./status.tsx";

export interface Action {
  /** `Retry 812 deliveries` */
  readonly title: string;
  /** What happens, and whether it is safe to repeat. */
  readonly text: ComponentChildren;
  /** The words of the button. */
  readonly verb: string;
  /**
   * Counted before anything happens; 0 disables the button, unless there is something to do then.
   */
  readonly count?: () => Promise<number>;
  /** What a count of 0 means. There is still something to do, or `next`, unless it `isEnd`. */
  readonly whenNone?: {
    readonly text: string;
    readonly next?: Action | undefined;
    readonly isEnd?: true;
  };
  /** Reports how many are done. Resolves with what happened. */
  run(progress: (done: number) => void, signal: AbortSignal): Promise<Result>;
  /** Called after it ran, however it ended. */
  readonly ended?: (() => void) | undefined;
}

export interface Result {
  readonly tone: Tone;
  readonly text: string;
  /** What helps now. */
  readonly next?: Action | undefined;
}

/** Asks before it acts, shows the count first, then the progress and the result. Null: closed. */
export function ActionDialog({ action, close }: { action: Action | null; close(): void }) {
  const [next, setNext] = useState<Action | null>(null);
  const shown = action && (next ?? action);
  const end = () => {
    setNext(null);
    close();
  };
  return (
    shown && (
      <Dialog title={shown.title} close={end}>
        {(cancel) => <Step key={shown.title} action={shown} proceed={setNext} cancel={cancel} />}
      </Dialog>
    )
  );
}

type State =
  | { readonly kind: "counting" }
  | { readonly kind: "ready" }
  | { readonly kind: "running"; readonly done: number }
  | { readonly kind: "ended"; readonly result: Result }
  | { readonly kind: "failed"; readonly text: string };

function Step({
  action,
  proceed,
  cancel,
}: {
  action: Action;
  proceed(next: Action): void;
  cancel(): void;
}) {
  const abort = useRef(new AbortController());
  const [step, setStep] = useState<State>({
    kind: action.count === undefined ? "ready" : "counting",
  });
  const [matching, setMatching] = useState<number | null>(null);
  const end = useRef<HTMLButtonElement>(null);

  useEffect(() => {
    const stop = new AbortController();
    abort.current = stop;
    action.count?.().then(
      (found) => {
        setMatching(found);
        setStep({ kind: "ready" });
      },
      (error: unknown) => {
        reportError(error);
        if (!stop.signal.aborted) setStep({ kind: "failed", text: errorText(error) });
      },
    );
    return () => stop.abort();
  }, []);

  async function run(): Promise<void> {
    let done = 0;
    const progress = (sum: number) => {
      done = sum;
      setStep({ kind: "running", done });
    };
    progress(0);
    try {
      setStep({ kind: "ended", result: await action.run(progress, abort.current.signal) });
    } catch (error) {
      reportError(error);
      const text = errorText(error);
      setStep({
        kind: "failed",
        text: done === 0 ? text : `${count(done)} done, then: ${text}`,
      });
    }
    action.ended?.();
  }

  const isNone = step.kind === "ready" && matching === 0;
  const next =
    step.kind === "ended" ? step.result.next : isNone ? action.whenNone?.next : undefined;
  const isDone = step.kind === "ended" || step.kind === "failed" || next !== undefined;
  useEffect(() => {
    // The button that had the focus is gone.
    if (isDone && document.activeElement === document.body) end.current?.focus();
  }, [isDone]);
  return (
    <>
      <div>{action.text}</div>
      <p role="status">
        {step.kind === "counting" && "Counting…"}
        {step.kind === "ready" &&
          matching !== null &&
          (matching === 0
            ? (action.whenNone?.text ?? "Nothing matches now.")
            : `${count(matching)} ${matching === 1 ? "matches" : "match"} now.`)}
        {step.kind === "running" && (
          <>
            <progress
              value={step.done === 0 || !matching ? undefined : step.done}
              max={matching ?? 1}
            />{" "}
            {step.done > 0 && count(step.done)}
          </>
        )}
        {step.kind === "ended" && (
          <>
            <span class={`tone-${step.result.tone}`}>{shapes[step.result.tone]}</span>{" "}
            {step.result.text}
          </>
        )}
        {step.kind === "failed" && <span class="problem">■ {step.text}</span>}
      </p>
      <div class="buttons">
        {!isDone && (
          <button
            type="button"
            class="primary"
            disabled={
              step.kind !== "ready" ||
              (isNone && (action.whenNone?.isEnd ?? action.whenNone === undefined))
            }
            onClick={() => void run()}
          >
            {action.verb}
          </button>
        )}
        {next !== undefined && (
          <button type="button" class="primary" onClick={() => proceed(next)}>
            {next.title}
          </button>
        )}
        <button ref={end} type="button" onClick={cancel}>
          {isDone ? "Close" : step.kind === "running" ? "Stop" : "Cancel"}
        </button>
      </div>
    </>
  );
}
