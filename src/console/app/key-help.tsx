import { useEffect, useRef } from "preact/hooks";

const keys: readonly (readonly [key: string, meaning: string])[] = [
  ["/", "search"],
  ["j  k", "next row, previous row"],
  ["enter", "open the selected row"],
  ["r", "retry the selected delivery or group"],
  ["?", "this help"],
  ["esc", "close a dialog"],
];

export function KeyHelp({ pages, close }: { pages: readonly { readonly key: string; readonly name: string }[]; close(): void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="keys-title">
      <h2 id="keys-title">Keyboard</h2>
      <dl class="keys">
        {[...keys, ...pages.map(({ key, name }) => [`g ${key}`, name] as const)].map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <div class="buttons">
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}
