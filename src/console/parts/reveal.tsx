import { useState } from "preact/hooks";
import { useData } from "../app/data.ts";
import { useSession } from "../app/session.tsx";

interface Reveal {
  readonly isRevealed: boolean;
  set(isRevealed: boolean): void;
}

const refreshMs = 5_000;

/**
 * Reads what depends on `of`: masked until the button is pressed, and again once the page is left.
 * A masked answer stays until the clear one arrives, and is read again every few seconds unless it
 * `isFixed`. Each revealed read is logged.
 */
export function useMasked<T>(
  read: (mask: { readonly reveal?: true }) => Promise<T>,
  of: unknown,
  isFixed = false,
) {
  const [isRevealed, set] = useState(false);
  const key = (revealed: boolean) => JSON.stringify([of, revealed]);
  const answer = useData(
    () => read(isRevealed ? { reveal: true } : {}),
    key(isRevealed),
    isFixed || isRevealed ? null : refreshMs,
    isRevealed ? key(false) : null,
  );
  return { answer, reveal: { isRevealed, set } };
}

export function RevealButton({ reveal: { isRevealed, set } }: { reveal: Reveal }) {
  const { can } = useSession();
  if (!can("pii")) return null;
  return (
    <button
      type="button"
      aria-pressed={isRevealed}
      title="Shows phone numbers, wamids and bodies. The relay logs who revealed what."
      onClick={() => set(!isRevealed)}
    >
      {isRevealed ? "Hide" : "Reveal"}
    </button>
  );
}

/**
 * An id or a name that others chose: one line, with the full text on hover and in the clipboard.
 */
export function Name({ text }: { text: string }) {
  return (
    <bdi class="clip mono" title={text}>
      {text}
    </bdi>
  );
}
