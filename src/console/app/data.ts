import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useLocation, useSearch } from "wouter-preact";
import { navigate } from "wouter-preact/use-browser-location";
import { errorText, isNotFound } from "./api.ts";
import { samePlace } from "./scroll.ts";
import { reportError } from "./session.tsx";
import { watchRead } from "./slow.ts";

export interface Data<T> {
  /** The latest answer; kept while the next one loads. */
  readonly data: T | null;
  readonly problem: string | null;
  readonly isMissing: boolean;
  readonly isLoading: boolean;
  reload(): void;
}

/**
 * Reads when the page shows it, when `key` changes, and each `everyMs` while the page is visible. A
 * read under one key ends before the next begins, so that a slow relay is not asked in vain. Until
 * the first answer under `key` arrives, that under `standIn` stays.
 */
export function useData<T>(
  read: () => Promise<T>,
  key: string,
  everyMs: number | null = null,
  standIn: string | null = null,
): Data<T> {
  const [state, setState] = useState<Omit<Data<T>, "reload"> & { readonly key: string }>({
    key,
    data: null,
    problem: null,
    isMissing: false,
    isLoading: true,
  });
  const latest = useRef(read);
  latest.current = read;
  const [turn, setTurn] = useState(0);
  const reading = useRef<{ again: boolean } | null>(null);
  const shown = useRef<{ readonly key: string; readonly at: number } | null>(null);

  useEffect(() => {
    const abort = new AbortController();
    const own = { again: false };
    reading.current = own;
    const endRead = watchRead(() => (shown.current?.key === key ? shown.current.at : null));
    const ended = () => {
      endRead();
      if (reading.current === own) reading.current = null;
    };
    setState((before) => ({
      key,
      data: before.key === key || before.key === standIn ? before.data : null,
      // It stays until an answer arrives: the rows below it would move at each try.
      problem: before.key === key ? before.problem : null,
      // What is missing stays so while it is looked for again, without a flicker.
      isMissing: before.key === key && before.isMissing,
      isLoading: before.key !== key || !before.isMissing,
    }));
    latest.current().then(
      (data) => {
        if (abort.signal.aborted) return;
        ended();
        shown.current = { key, at: performance.now() };
        setState({ key, data, problem: null, isMissing: false, isLoading: false });
        if (own.again) reload();
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        ended();
        reportError(error);
        if (isNotFound(error))
          setState({ key, data: null, problem: null, isMissing: true, isLoading: false });
        else
          setState((before) => ({
            ...before,
            problem: errorText(error),
            isMissing: false,
            isLoading: false,
          }));
        if (own.again) reload();
      },
    );
    return () => {
      abort.abort();
      ended();
    };
  }, [key, turn]);

  const reload = useCallback(() => {
    if (reading.current === null) setTurn((before) => before + 1);
    else reading.current.again = true;
  }, []);
  useEffect(() => {
    if (everyMs === null) return undefined;
    const timer = setInterval(
      () => reading.current === null && document.visibilityState === "visible" && reload(),
      everyMs,
    );
    return () => clearInterval(timer);
  }, [everyMs, reload]);
  // Data of another key would be shown for one frame.
  if (state.key === key) return { ...state, reload };
  return {
    data: state.key === standIn ? state.data : null,
    problem: null,
    isMissing: false,
    isLoading: true,
    reload,
  };
}

/**
 * What parameters may be: one of some words, or what a function accepts. Others may be any text.
 */
export type Rules = Readonly<Record<string, readonly string[] | ((text: string) => boolean)>>;

export const isTime = (text: string): boolean => !Number.isNaN(Date.parse(text));
export const isSeq = (text: string): boolean => /^\d{1,15}$/.test(text);

type Query = Readonly<Record<string, string>>;

/**
 * The query of the URL, which holds the whole state of a page. Values that a rule forbids are in
 * `invalid` instead. `set` makes an entry of the history, or replaces the current one; an empty or
 * missing value removes the parameter.
 */
export function useQuery(rules: Rules = {}) {
  const query: Record<string, string> = {};
  const invalid: Record<string, string> = {};
  for (const [name, text] of new URLSearchParams(useSearch())) {
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    const isValid =
      rule === undefined || (typeof rule === "function" ? rule(text) : rule.includes(text));
    (isValid ? query : invalid)[name] = text;
  }
  const set = useCallback((change: Readonly<Record<string, string | null>>, replace = false) => {
    const next = new URLSearchParams(window.location.search);
    for (const [name, value] of Object.entries(change)) {
      if (value === null || value === "") next.delete(name);
      else next.set(name, value);
    }
    const { pathname, search } = window.location;
    const text = next.size === 0 ? "" : `?${next}`;
    if (text !== search) navigate(pathname + text, { replace, state: samePlace });
  }, []);
  return { query: query as Query, invalid: invalid as Query, set };
}

/** A URL below `/console` for the router, with the parameters that have a value. */
export function path(
  page: string,
  query: Readonly<Record<string, string | number | null | undefined>> = {},
): string {
  const given = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? page : `${page}?${text}`;
}

/**
 * The name after the page in the URL's path, such as a wamid; null without one. The router decodes
 * it only in part.
 */
export function usePathName(): string | null {
  // Renders again when the path changes.
  useLocation();
  const [, , , encoded] = window.location.pathname.split("/");
  if (encoded === undefined || encoded === "") return null;
  try {
    return decodeURIComponent(encoded);
  } catch {
    // A name that somebody typed by hand, with a percent sign.
    return encoded;
  }
}
