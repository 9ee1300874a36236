import { useState } from "preact/hooks";
import { useSession } from "../app/session.tsx";

interface Reveal {
  /** Of a request; empty while everything is masked. */
  readonly query: { readonly reveal?: true };
  readonly isRevealed: boolean;
  set(isRevealed: boolean): void;
}

/** Everything is masked until the button is pressed, and again once the page is left. */
export function useReveal(): Reveal {
  const [isRevealed, set] = useState(false);
  return { query: isRevealed ? { reveal: true } : {}, isRevealed, set };
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
