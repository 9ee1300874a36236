/** State of a history entry that shows the same page: it does not begin at the top. */
export const samePlace = "same place";

const positions = new Map<string, number>();
const address = (): string => window.location.pathname + window.location.search;

/** Opens a page at its top, and on Back where it was left. Returns the function that ends it. */
export function rememberScroll(): () => void {
  window.history.scrollRestoration = "manual";
  const end = new AbortController();
  let shown = address();
  let settle = () => {};
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
      if (window.history.state !== samePlace) window.scrollTo({ top: 0 });
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
