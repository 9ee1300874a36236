import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { LiveFilter, RelayEvent, RelayOverview } from "../../client/relay-client.ts";
import { relay } from "./api.ts";
import { reportError } from "./session.tsx";

/** `lost`: the stream broke, and the page connects again. */
export type Connection = "connecting" | "live" | "lost";

interface Tail {
  readonly filter: LiveFilter;
  rows(events: readonly RelayEvent[], skipped: number): void;
}

interface Live {
  readonly connection: Connection;
  /** Null until the first one arrives. */
  readonly overview: RelayOverview | null;
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
export function useTail(filter: LiveFilter | null, rows: Tail["rows"]): void {
  const { tail } = useLive();
  const latest = useRef(rows);
  latest.current = rows;
  const key = filter === null ? null : JSON.stringify(filter);
  useEffect(
    () => (key === null ? undefined : tail({ filter: JSON.parse(key), rows: (events, skipped) => latest.current(events, skipped) })),
    [key, tail],
  );
}

/** Keeps the page's one stream open. A change of the tail opens another one. */
export function LiveProvider({ children }: { children: ComponentChildren }) {
  const [connection, setConnection] = useState<Connection>("connecting");
  const [overview, setOverview] = useState<RelayOverview | null>(null);
  const [tail, setTail] = useState<Tail | null>(null);

  useEffect(() => {
    const abort = new AbortController();
    void (async () => {
      try {
        for await (const message of relay.live({ ...tail?.filter, tail: tail !== null }, { signal: abort.signal })) {
          if (message.kind === "lost") setConnection("lost");
          else setConnection("live");
          if (message.kind === "overview") setOverview(message.overview);
          if (message.kind === "events") tail?.rows(message.data, message.skipped);
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        setConnection("lost");
        reportError(error);
      }
    })();
    return () => abort.abort();
  }, [tail]);

  const subscribe = useMemo(
    () => (next: Tail) => {
      setTail(next);
      return () => setTail((current) => (current === next ? null : current));
    },
    [],
  );
  return <LiveContext.Provider value={{ connection, overview, tail: subscribe }}>{children}</LiveContext.Provider>;
}
