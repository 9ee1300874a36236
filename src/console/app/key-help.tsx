import { Dialog } from "../parts/dialog.tsx";

const keys: readonly (readonly [key: string, meaning: string])[] = [
  ["/", "search"],
  ["j  k", "next row, previous row"],
  ["enter", "open the selected row"],
  ["r", "retry the selected delivery or group"],
  ["?", "this help"],
  ["esc", "close a dialog"],
];

export function KeyHelp({
  pages,
  close,
}: {
  pages: readonly { readonly key: string; readonly name: string }[];
  close(): void;
}) {
  return (
    <Dialog title="Keyboard" close={close}>
      {(end) => (
        <>
          <dl class="keys">
            {[...keys, ...pages.map(({ key, name }) => [`g ${key}`, name] as const)].map(
              ([key, meaning]) => (
                <div key={key}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{meaning}</dd>
                </div>
              ),
            )}
          </dl>
          <div class="buttons">
            <button type="button" onClick={end}>
              Close
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}
