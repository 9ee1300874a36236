import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RelayEvent, RelayOverview, RequestOf } from "../../client/relay-client.ts";
import { isForbidden, relay } from "./api.ts";
import { useData } from "./data.ts";
import { endSession, lacksRead, reportError, useSession } from "./session.tsx";
import { watchRead } from "./slow.ts";

/**
 * `polling`: other tabs have the streams. `lost`: the stream broke, and the page connects again.
 */
export type Connection = "connecting" | "live" | "polling" | "lost";

interface Tail {
  readonly filter: RequestOf<"live">;
  rows(events: readonly RelayEvent[], skipped: number): void;
}

interface Live {
  readonly connection: Connection;
  /** Null until the first one arrives. */
  readonly overview: RelayOverview | null;
  /** Those of the settings that the token may see; empty until they arrive. */
  readonly accounts: readonly string[];
  /** Only one page tails at a time. Returns the unsubscribe function. */
  tail(tail: Tail): () => void;
}

const LiveContext = createContext<Live | null>(null);

export function useLive(): Live {
  const live = useContext(LiveContext);
  if (live === null) throw new Error("used outside LiveProvider");
  return live;
}

/** Calls `rows` with the events that match, as they are stored. Null: no tail. */
export function useTail(filter: RequestOf<"live"> | null, rows: Tail["rows"]): void {
  const { tail } = useLive();
  const latest = useRef(rows);
  latest.current = rows;
  const key = filter === null ? null : JSON.stringify(filter);
  useEffect(
    () =>
      key === null
        ? undefined
        : tail({
            filter: JSON.parse(key),
            rows: (events, skipped) => latest.current(events, skipped),
          }),
    [key, tail],
  );
}

/**
 * A browser opens six connections to a relay over HTTP/1.1, for all tabs together; two are for
 * requests.
 */
const mostStreams = 4;
const pollMs = 5_000;

/** Runs `stream` if one of the browser's tabs' streams is free; false when none is. */
async function withStream(stream: () => Promise<void>): Promise<boolean> {
  // Browsers have no locks on a page without HTTPS.
  if (navigator.locks === undefined) {
    await stream();
    return true;
  }
  for (let n = 0; n < mostStreams; n += 1) {
    const isFree = await navigator.locks.request(
      `wamid-relay stream ${n}`,
      { ifAvailable: true },
      async (lock) => {
        if (lock !== null) await stream();
        return lock !== null;
      },
    );
    if (isFree) return true;
  }
  return false;
}

function useIsVisible(): boolean {
  const [isVisible, setVisible] = useState(document.visibilityState === "visible");
  useEffect(() => {
    const changed = () => setVisible(document.visibilityState === "visible");
    document.addEventListener("visibilitychange", changed);
    return () => document.removeEventListener("visibilitychange", changed);
  }, []);
  return isVisible;
}

/**
 * Keeps the page's one stream open while the page is visible. A change of the tail opens another
 * one.
 */
export function LiveProvider({ children }: { children: ComponentChildren }) {
  const [connection, setConnection] = useState<Connection>("connecting");
  const [overview, setOverview] = useState<RelayOverview | null>(null);
  const [tail, setTail] = useState<Tail | null>(null);

  const isVisible = useIsVisible();
  const { isLimited, name } = useSession();
  const accounts = useData(() => relay.listAccounts(), "accounts").data?.data;

  useEffect(() => {
    if (!isVisible) {
      setConnection("connecting");
      return undefined;
    }
    const abort = new AbortController();
    const follow = async () => {
      try {
        for await (const message of relay.live(
          { ...tail?.filter, tail: tail !== null },
          { signal: abort.signal, longestWaitMs: pollMs },
        )) {
          if (message.kind === "lost") setConnection("lost");
          else setConnection("live");
          if (message.kind === "overview") setOverview(message.overview);
          if (message.kind === "events") tail?.rows(message.data, message.skipped);
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        // A limited token may not follow another account. The stream goes on without the tail.
        if (isForbidden(error) && tail !== null) return setTail(null);
        setConnection("lost");
        if (isForbidden(error)) endSession(lacksRead(name));
        else reportError(error);
      }
    };
    let polledAt: number | null = null;
    const poll = async () => {
      const ended = watchRead(() => polledAt);
      try {
        if (!isLimited) setOverview(await relay.getOverview());
        polledAt = performance.now();
        if (!abort.signal.aborted) setConnection("polling");
      } catch (error) {
        if (!abort.signal.aborted) setConnection("lost");
        reportError(error);
      } finally {
        ended();
      }
      await new Promise((resolve) => setTimeout(resolve, pollMs));
    };
    void (async () => {
      while (!abort.signal.aborted && !(await withStream(follow))) await poll();
    })();
    return () => abort.abort();
  }, [tail, isVisible]);

  const subscribe = useMemo(
    () => (next: Tail) => {
      setTail(next);
      return () => setTail((current) => (current === next ? null : current));
    },
    [],
  );
  return (
    <LiveContext.Provider
      value={{
        connection,
        overview,
        accounts: accounts?.map(({ account }) => account) ?? [],
        tail: subscribe,
      }}
    >
      {children}
    </LiveContext.Provider>
  );
}
