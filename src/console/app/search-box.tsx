import { useEffect, useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import type { SearchHit } from "../../client/relay-client.ts";
import { Problem } from "../parts/notes.tsx";
import { Status } from "../parts/status.tsx";
import { Time } from "../parts/time.tsx";
import { relay } from "./api.ts";
import { useData } from "./data.ts";

/** The page that tells the story of what was found. */
export function hrefOf({ kind, id, seq, account }: SearchHit): string {
  const of = account === null ? "" : `?account=${encodeURIComponent(account)}`;
  if (kind === "message") return `/messages/${encodeURIComponent(id)}${of}`;
  if (kind === "run") return `/runs/${encodeURIComponent(id)}${of}`;
  return `/events/${seq ?? encodeURIComponent(id)}`;
}

/**
 * Finds a message, run, event or delivery by any of its names. Enter opens the only one, or the
 * list.
 */
export function SearchBox() {
  const [text, setText] = useState("");
  const [query, setQuery] = useState("");
  // Enter searches again, also for the same.
  const [turn, setTurn] = useState(0);
  const [location] = useLocation();
  // Another page was opened below the results, or something beside them pressed: a phone has no
  // Escape.
  useEffect(() => setQuery(""), [location]);
  useEffect(() => {
    const pressed = ({ target }: PointerEvent) =>
      (target as Element).closest(".search") === null && setQuery("");
    document.addEventListener("pointerdown", pressed);
    return () => document.removeEventListener("pointerdown", pressed);
  }, []);
  return (
    <search
      class="search"
      onKeyDown={({ key }) => {
        if (key !== "Escape") return;
        setQuery("");
        (document.activeElement as HTMLElement | null)?.blur();
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setQuery(text.trim());
          setTurn(turn + 1);
        }}
      >
        <label class="visually-hidden" for="search">
          Search
        </label>
        <input
          id="search"
          type="search"
          value={text}
          placeholder="Search wamid, event, reference, phone…"
          spellcheck={false}
          autocomplete="off"
          onInput={({ currentTarget }) => {
            setText(currentTarget.value);
            if (currentTarget.value === "") setQuery("");
          }}
        />
        <kbd>/</kbd>
      </form>
      {query !== "" && <Results key={turn} query={query} close={() => setQuery("")} />}
    </search>
  );
}

function Results({ query, close }: { query: string; close(): void }) {
  const [, navigate] = useLocation();
  const { data, problem, isLoading, reload } = useData(async () => {
    const found = await relay.search({ q: query });
    const [only, ...others] = found.data;
    if (only !== undefined && others.length === 0) {
      navigate(hrefOf(only));
      close();
    }
    return found;
  }, query);
  return (
    <div class="results" role="status">
      <Problem text={problem} retry={reload} />
      {isLoading && <p class="dim">Searching…</p>}
      {data !== null && data.data.length === 0 && (
        <p class="dim">
          No match. Try a wamid, an event id, a reference, a user id of Meta, or the last four
          digits of a phone.
        </p>
      )}
      <ul>
        {data?.data.map((result) => (
          <li key={`${result.kind} ${result.id}`}>
            <Link href={hrefOf(result)} onClick={close}>
              <span class="dim">{result.kind}</span>{" "}
              <bdi>{result.label === "" ? result.id : result.label}</bdi>
              {result.status !== null && <Status word={result.status} />}
              {result.at !== null && <Time at={result.at} />}
            </Link>
          </li>
        ))}
      </ul>
      {data?.more === true && <p class="dim">More match. Type more of the name.</p>}
    </div>
  );
}
