import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** The heading of a page, and the title of its tab. */
export function Title({
  children,
  isHidden = false,
}: {
  children: ComponentChildren;
  isHidden?: boolean;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${heading.current?.textContent} · wamid-relay`;
  });
  return (
    <h1 ref={heading} class={isHidden ? "visually-hidden" : ""}>
      {children}
    </h1>
  );
}
