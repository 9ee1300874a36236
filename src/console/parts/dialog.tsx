import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface DialogProps {
  readonly title: string;
  close(): void;
  /** `end` closes it, as Escape does. */
  children(end: () => void): ComponentChildren;
}

/** What has the focus, and its place: a row may be gone when the dialog closes. */
function focusOf(opener: Element | null) {
  const row = opener?.closest("tr");
  return { opener, table: row?.closest("table"), at: row?.rowIndex ?? 0 };
}

/**
 * Covers the page until it is closed; the focus returns to where it was, or to the row in its place.
 * Another title is another step in the same dialog.
 */
export function Dialog({ title, close, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const focused = useRef(focusOf(document.activeElement));
  useEffect(() => {
    // The button that led to this step is gone.
    if (dialog.current?.open)
      dialog.current.querySelector<HTMLElement>("button:not(:disabled)")?.focus();
    else dialog.current?.showModal();
  }, [title]);
  const end = () => {
    const { opener, table, at } = focused.current;
    if (opener?.isConnected === false && table?.isConnected)
      table.rows[Math.min(at, table.rows.length - 1)]?.querySelector("button")?.focus();
    close();
  };
  return (
    <dialog ref={dialog} onClose={end} aria-labelledby="dialog-title">
      <h2 id="dialog-title">{title}</h2>
      {children(() => dialog.current?.close())}
    </dialog>
  );
}
