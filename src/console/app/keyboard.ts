import { useLayoutEffect, useRef } from "preact/hooks";

type Handler = (event: KeyboardEvent) => void;

const layers: Readonly<Record<string, Handler>>[] = [];
/** After `g`, the next key chooses a page within this time. */
const chordMs = 1_500;
let chordUntil = 0;

function isTyping({ target }: KeyboardEvent): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Links and buttons answer these keys themselves. */
function isForControl({ key, target }: KeyboardEvent): boolean {
  return (
    (key === "Enter" || key === " ") &&
    target instanceof Element &&
    target.closest("a, button, summary, label, audio, video") !== null
  );
}

function onKey(event: KeyboardEvent): void {
  if (
    event.defaultPrevented ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    isTyping(event) ||
    isForControl(event)
  )
    return;
  if (document.querySelector("dialog[open]") !== null) return;
  const isChord = performance.now() < chordUntil;
  chordUntil = 0;
  const key = isChord ? `g ${event.key}` : event.key;
  // The latest first: a page's keys come before the shell's.
  const handler = layers.findLast((each) => Object.hasOwn(each, key))?.[key];
  if (handler !== undefined) {
    event.preventDefault();
    handler(event);
  } else if (!isChord && event.key === "g") chordUntil = performance.now() + chordMs;
}

/**
 * Handles keys such as `j`, `Enter` or `g o` while the component is shown and nobody types in a
 * field.
 */
export function useKeys(keys: Readonly<Record<string, Handler>>): void {
  const latest = useRef(keys);
  latest.current = keys;
  const names = Object.keys(keys).join(" ");
  // Before the paint: a key pressed as soon as the page shows what it is for would be lost.
  useLayoutEffect(() => {
    const layer = Object.fromEntries(
      Object.keys(latest.current).map((key) => [
        key,
        (event: KeyboardEvent) => latest.current[key]?.(event),
      ]),
    );
    if (layers.length === 0) document.addEventListener("keydown", onKey);
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
      if (layers.length === 0) document.removeEventListener("keydown", onKey);
    };
  }, [names]);
}
