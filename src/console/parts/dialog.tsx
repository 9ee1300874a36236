import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface DialogProps {
  readonly title: string;
  close(): void;
  /** `end` closes it, as Escape does. */
  children(end: () => void): ComponentChildren;
}

/**
 * Covers the page until it is closed; the focus returns to where it was. Another title is another
 * step in the same dialog.
 */
export function Dialog({ title, close, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    // The button that led to this step is gone.
    if (dialog.current?.open)
      dialog.current.querySelector<HTMLElement>("button:not(:disabled)")?.focus();
    else dialog.current?.showModal();
  }, [title]);
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="dialog-title">
      <h2 id="dialog-title">{title}</h2>
      {children(() => dialog.current?.close())}
    </dialog>
  );
}
