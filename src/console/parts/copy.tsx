import { useState } from "preact/hooks";

/** Copies text to the clipboard, and says so. */
export function Copy({ text, label }: { text: string | (() => string); label: string }) {
  const [notice, setNotice] = useState<string | null>(null);
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      setNotice("Copied");
    } catch {
      setNotice("The browser refused to copy");
    }
    setTimeout(() => setNotice(null), 2_000);
  }
  return (
    <button type="button" onClick={() => void copy()}>
      <span aria-live="polite">{notice ?? label}</span>
    </button>
  );
}
