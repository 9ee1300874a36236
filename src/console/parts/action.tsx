import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { errorText } from "../app/api.ts";
import { reportError } from "../app/session.tsx";

export interface Action {
  /** `Retry 812 deliveries` */
  readonly title: string;
  /** What happens, and whether it is safe to repeat. */
  readonly text: ComponentChildren;
  /** The words of the button. */
  readonly verb: string;
  /** Counted before anything happens; 0 disables the button, unless there is something to do then. */
  readonly count?: () => Promise<number>;
  /** What a count of 0 means, when there is something to do. */
  readonly whenNone?: string;
  /** Reports how many are done. Resolves with what to tell. */
  run(progress: (done: number) => void, signal: AbortSignal): Promise<string>;
  /** Called after it ran, however it ended. */
  ended?(): void;
}

/** Asks before it acts, shows the count first, then the progress and the result. Null: closed. */
export function ActionDialog({ action, close }: { action: Action | null; close(): void }) {
  return action === null ? null : <Open key={action.title} action={action} close={close} />;
}

type Step =
  | { readonly kind: "counting" }
  | { readonly kind: "ready" }
  | { readonly kind: "running"; readonly done: number }
  | { readonly kind: "ended"; readonly text: string }
  | { readonly kind: "failed"; readonly text: string };

function Open({ action, close }: { action: Action; close(): void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const abort = useRef(new AbortController());
  const [step, setStep] = useState<Step>({ kind: action.count === undefined ? "ready" : "counting" });
  const [count, setCount] = useState<number | null>(null);

  useEffect(() => {
    dialog.current?.showModal();
    const stop = new AbortController();
    abort.current = stop;
    action.count?.().then(
      (found) => {
        setCount(found);
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
    setStep({ kind: "running", done: 0 });
    try {
      setStep({ kind: "ended", text: await action.run((done) => setStep({ kind: "running", done }), abort.current.signal) });
    } catch (error) {
      reportError(error);
      setStep({ kind: "failed", text: errorText(error) });
    }
    action.ended?.();
  }

  const isDone = step.kind === "ended" || step.kind === "failed";
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="action-title">
      <h2 id="action-title">{action.title}</h2>
      <div>{action.text}</div>
      <p role="status">
        {step.kind === "counting" && "Counting…"}
        {step.kind === "ready" &&
          count !== null &&
          (count === 0
            ? (action.whenNone ?? "Nothing matches now.")
            : `${count.toLocaleString()} ${count === 1 ? "matches" : "match"} now.`)}
        {step.kind === "running" && (
          <>
            <progress value={count === null || count === 0 ? undefined : step.done} max={count ?? 1} />{" "}
            {step.done > 0 && step.done.toLocaleString()}
          </>
        )}
        {step.kind === "ended" && `● ${step.text}`}
        {step.kind === "failed" && <span class="problem">■ {step.text}</span>}
      </p>
      <div class="buttons">
        {!isDone && (
          <button
            type="button"
            class="primary"
            disabled={step.kind !== "ready" || (count === 0 && action.whenNone === undefined)}
            onClick={() => void run()}
          >
            {action.verb}
          </button>
        )}
        <button type="button" onClick={() => dialog.current?.close()}>
          {isDone ? "Close" : step.kind === "running" ? "Stop" : "Cancel"}
        </button>
      </div>
    </dialog>
  );
}
