/** State of an entry of the history. */
interface Entry {
  /** It shows the same page: it does not begin at the top. */
  readonly isSamePlace?: true;
  /** Where it was when the page was loaded again. */
  readonly top?: number;
  /** The row that was opened from it. */
  readonly opened?: { readonly table: string; readonly row: string | number };
}

const entry = (): Entry => (window.history.state as Entry | null) ?? {};

export const samePlace: Entry = { isSamePlace: true };

/** Notes in the history which row is opened, for Back. */
export function leaveAt(table: string, row: string | number): void {
  window.history.replaceState({ ...entry(), opened: { table, row } }, "");
}

export function openedRow(table: string): string | number | null {
  const { opened } = entry();
  return opened?.table === table ? opened.row : null;
}

const positions = new Map<string, number>();
const address = (): string => window.location.pathname + window.location.search;

/**
 * Opens a page at its top, and on Back or after a reload where it was left. Returns the function
 * that ends it.
 */
export function rememberScroll(): () => void {
  window.history.scrollRestoration = "manual";
  const end = new AbortController();
  let shown = address();
  const { top = 0 } = entry();
  let settle = top === 0 ? () => {} : scrollOnceThere(top);
  const leave = (): void => {
    settle();
    positions.set(shown, window.scrollY);
    shown = address();
  };
  // Before the router's listener, which renders another page. The router dispatches the other two
  // events.
  const first = { capture: true, signal: end.signal };
  window.addEventListener(
    "popstate",
    () => {
      // A link to a place on this page.
      if (address() === shown) return;
      leave();
      settle = scrollOnceThere(positions.get(shown) ?? 0);
    },
    first,
  );
  window.addEventListener(
    "pushState",
    () => {
      leave();
      if (entry().isSamePlace !== true) window.scrollTo({ top: 0 });
    },
    first,
  );
  window.addEventListener(
    "replaceState",
    () => {
      shown = address();
    },
    first,
  );
  // `pagehide` comes too late for the history.
  window.addEventListener(
    "beforeunload",
    () => window.history.replaceState({ ...entry(), top: window.scrollY }, ""),
    first,
  );
  return () => {
    settle();
    end.abort();
  };
}

/** Scrolls as the rows arrive, until the place is reached or the person does something. */
function scrollOnceThere(top: number): () => void {
  const end = new AbortController();
  const stop = (): void => end.abort();
  const observer = new ResizeObserver(() => {
    window.scrollTo({ top });
    if (Math.abs(window.scrollY - top) < 1) stop();
  });
  observer.observe(document.body);
  end.signal.addEventListener("abort", () => observer.disconnect());
  for (const act of ["wheel", "pointerdown", "keydown", "touchmove"])
    window.addEventListener(act, stop, { signal: end.signal, passive: true });
  return stop;
}
