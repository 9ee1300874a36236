import type { ComponentChildren } from "preact";
import { Link } from "wouter-preact";
import type { Data } from "../app/data.ts";

/** What an empty page tells: why it is empty, and what fills it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Nothing has the name in the address. */
export function Missing({
  what,
  list,
  children,
}: {
  what: string;
  list: string;
  children?: ComponentChildren;
}) {
  return (
    <Empty title={`No ${what} has this name`}>
      <p>{children}</p>
      <p>
        <Link href={list}>All {what}s</Link>
      </p>
    </Empty>
  );
}

/** A request failed. What was shown before stays. */
export function Problem({
  text,
  retry,
  isLoading = false,
}: {
  text: string | null;
  retry?: (() => void) | undefined;
  isLoading?: boolean;
}) {
  if (text === null) return null;
  return (
    <p class="problem" role="alert">
      <span aria-hidden="true">■ </span>
      {text}{" "}
      {retry && (
        <button type="button" aria-busy={isLoading} onClick={retry}>
          Try again
        </button>
      )}
    </p>
  );
}

export function Loading({ isLoading }: { isLoading: boolean }) {
  return isLoading ? (
    <p class="dim loading" role="status">
      Loading…
    </p>
  ) : null;
}

/**
 * A part of a page that waits for an answer: what went wrong, that it loads, or what was answered.
 */
export function Answer<T>({ of, children }: { of: Data<T>; children(data: T): ComponentChildren }) {
  return (
    <>
      <Problem text={of.problem} retry={of.reload} isLoading={of.isLoading} />
      <Loading isLoading={of.isLoading && of.data === null} />
      {of.data !== null && children(of.data)}
    </>
  );
}

/** Bodies and command lines, as text: nothing in them is interpreted. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <section aria-label={label}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard must be able to scroll it */}
      <pre class="code" tabIndex={0}>
        <bdi>{text}</bdi>
      </pre>
    </section>
  );
}
