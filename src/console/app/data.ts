import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useLocation, useSearch } from "wouter-preact";
import { navigate } from "wouter-preact/use-browser-location";
import { errorText, isNotFound } from "./api.ts";
import { reportError } from "./session.tsx";

export interface Data<T> {
  /** The latest answer; kept while the next one loads. */
  readonly data: T | null;
  readonly problem: string | null;
  /** Nothing has this name. */
  readonly isMissing: boolean;
  readonly isLoading: boolean;
  reload(): void;
}

/**
 * Reads when the page shows it, when `key` changes, and each `everyMs` while the page is visible. Until the first answer
 * under `key` arrives, that under `standIn` stays.
 */
export function useData<T>(read: () => Promise<T>, key: string, everyMs: number | null = null, standIn: string | null = null): Data<T> {
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

  useEffect(() => {
    const abort = new AbortController();
    setState((before) => ({
      key,
      data: before.key === key || before.key === standIn ? before.data : null,
      problem: null,
      // What is missing stays so while it is looked for again, without a flicker.
      isMissing: before.key === key && before.isMissing,
      isLoading: before.key !== key || !before.isMissing,
    }));
    latest.current().then(
      (data) => abort.signal.aborted || setState({ key, data, problem: null, isMissing: false, isLoading: false }),
      (error: unknown) => {
        if (abort.signal.aborted) return;
        reportError(error);
        if (isNotFound(error)) setState({ key, data: null, problem: null, isMissing: true, isLoading: false });
        else setState((before) => ({ ...before, problem: errorText(error), isMissing: false, isLoading: false }));
      },
    );
    return () => abort.abort();
  }, [key, turn]);

  const reload = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    if (everyMs === null) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, reload]);
  // Data of another key would be shown for one frame.
  if (state.key === key) return { ...state, reload };
  return { data: state.key === standIn ? state.data : null, problem: null, isMissing: false, isLoading: true, reload };
}

/** The query of the URL, which holds the whole state of a page. An empty or missing value removes the parameter. */
export function useQuery(): [query: Readonly<Record<string, string>>, set: (change: Readonly<Record<string, string | null>>) => void] {
  const query = Object.fromEntries(new URLSearchParams(useSearch()));
  const set = useCallback((change: Readonly<Record<string, string | null>>) => {
    const next = new URLSearchParams(window.location.search);
    for (const [name, value] of Object.entries(change)) {
      if (value === null || value === "") next.delete(name);
      else next.set(name, value);
    }
    const text = next.toString();
    navigate(`${window.location.pathname}${text === "" ? "" : `?${text}`}`, { replace: true });
  }, []);
  return [query, set];
}

/** A URL below `/console` for the router, with the parameters that have a value. */
export function path(page: string, query: Readonly<Record<string, string | number | null | undefined>> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? page : `${page}?${text}`;
}

/** The last part of the URL's path, such as a wamid. The router decodes it only in part. */
export function usePathName(): string {
  // Renders again when the path changes.
  useLocation();
  const encoded = window.location.pathname.split("/").at(-1) ?? "";
  try {
    return decodeURIComponent(encoded);
  } catch {
    // A name that somebody typed by hand, with a percent sign.
    return encoded;
  }
}
