import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Link, Redirect, Route, Router, Switch, useLocation } from "wouter-preact";
import { Overview } from "../overview/overview.tsx";
import { Problem } from "../parts/notes.tsx";
import { Title } from "../parts/title.tsx";
import { KeyHelp } from "./key-help.tsx";
import { useKeys } from "./keyboard.ts";
import { LiveProvider, useLive } from "./live.tsx";
import { rememberScroll } from "./scroll.ts";
import { SearchBox } from "./search-box.tsx";
import { SessionGate, useSession } from "./session.tsx";
import { useSlowness } from "./slow.ts";

/** Loads a page's code when it is first shown. */
function lazy(load: () => Promise<FunctionComponent>): FunctionComponent {
  let loaded: FunctionComponent | undefined;
  return function Lazy() {
    const [, setReady] = useState(loaded !== undefined);
    const [hasFailed, setFailed] = useState(false);
    const isLost = useLive().connection === "lost";
    useEffect(() => {
      if (loaded !== undefined) return;
      load().then(
        (page) => {
          loaded = page;
          setReady(true);
        },
        () => setFailed(true),
      );
    }, [isLost]);
    const Loaded = loaded;
    if (Loaded !== undefined) return <Loaded />;
    if (!hasFailed) return <p class="dim loading">Loading…</p>;
    const why = isLost
      ? "It loads once the connection is back."
      : "The relay may have been updated.";
    return (
      <Problem
        text={`This page could not be loaded. ${why}`}
        retry={isLost ? undefined : () => window.location.reload()}
      />
    );
  };
}

interface Page {
  readonly name: string;
  readonly path: string;
  /** After `g`. */
  readonly key: string;
  readonly Content: FunctionComponent;
  /** The path of a message, run or event ends with its name. */
  readonly hasNames?: true;
  /** About the whole relay. */
  readonly isWhole?: true;
}

const allPages: readonly Page[] = [
  { name: "Overview", path: "/", key: "o", Content: Overview, isWhole: true },
  {
    name: "Messages",
    path: "/messages",
    key: "m",
    Content: lazy(async () => (await import("../messages/messages.tsx")).Messages),
    hasNames: true,
  },
  {
    name: "Events",
    path: "/events",
    key: "e",
    Content: lazy(async () => (await import("../events/events.tsx")).Events),
    hasNames: true,
  },
  {
    name: "Deliveries",
    path: "/deliveries",
    key: "d",
    Content: lazy(async () => (await import("../deliveries/deliveries.tsx")).Deliveries),
  },
  {
    name: "Quality",
    path: "/quality",
    key: "q",
    Content: lazy(async () => (await import("../quality/quality.tsx")).Quality),
    isWhole: true,
  },
  {
    name: "Runs",
    path: "/runs",
    key: "r",
    Content: lazy(async () => (await import("../runs/runs.tsx")).Runs),
    hasNames: true,
  },
  {
    name: "Settings",
    path: "/settings",
    key: "s",
    Content: lazy(async () => (await import("../settings/settings.tsx")).SettingsPage),
    isWhole: true,
  },
];

export function App() {
  return (
    <SessionGate>
      <LiveProvider>
        <Router base="/console">
          <Shell />
        </Router>
      </LiveProvider>
    </SessionGate>
  );
}

function Shell() {
  const [location, navigate] = useLocation();
  const [isHelpOpen, setHelpOpen] = useState(false);
  const { isLimited } = useSession();
  const pages = allPages.filter(({ isWhole }) => !isLimited || !isWhole);
  useKeys({
    ...Object.fromEntries(pages.map(({ key, path }) => [`g ${key}`, () => navigate(path)])),
    "/": () => document.getElementById("search")?.focus(),
    "?": () => setHelpOpen(true),
  });
  const current = pages.find(({ path }) =>
    path === "/" ? location === "/" : location === path || location.startsWith(`${path}/`),
  );
  useEffect(rememberScroll, []);
  useEffect(() => {
    // A narrow screen shows a part of the list.
    document
      .querySelector("nav [aria-current]")
      ?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [current]);

  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header>
        <Link href="/" class="brand">
          wamid-relay
        </Link>
        <SearchBox />
        <Connection />
        <Person />
        <nav aria-label="Pages">
          {pages.map(({ name, path }) => (
            <Link key={path} href={path} aria-current={current?.path === path ? "page" : undefined}>
              {name}
            </Link>
          ))}
        </nav>
      </header>
      <main id="main" tabIndex={-1}>
        <Switch>
          {pages.map(({ path, hasNames, Content }) => (
            <Route key={path} path={hasNames ? `${path}/:name?` : path}>
              <Content />
            </Route>
          ))}
          {isLimited && (
            <Route path="/">
              <Redirect to="/messages" replace />
            </Route>
          )}
          <Route>
            <Title>No such page</Title>
            {isLimited && (
              <p class="dim">
                The token is limited to accounts, and sees no page about the whole relay.
              </p>
            )}
            <p>
              <Link href="/">{pages[0]?.name}</Link>
            </p>
          </Route>
        </Switch>
      </main>
      {isHelpOpen && <KeyHelp pages={pages} close={() => setHelpOpen(false)} />}
    </>
  );
}

function Connection() {
  const { connection } = useLive();
  const slowness = useSlowness();
  if (slowness !== undefined) {
    return (
      <span class="connection lost" role="status">
        ▲ slow
        <span class="more-words">
          {slowness === null
            ? ": waiting for data"
            : `: data is ${Math.floor(slowness / 1000)} s old`}
        </span>
      </span>
    );
  }
  return (
    <span class={`connection ${connection}`} role="status">
      {connection === "connecting" && "○ connecting"}
      {connection === "live" && "● live"}
      {connection === "polling" && "● every 5 s"}
      {connection === "lost" && (
        <>
          ▲ connection lost<span class="more-words">; trying again</span>
        </>
      )}
    </span>
  );
}

const themes = ["system", "light", "dark"] as const;
type Theme = (typeof themes)[number];

function readTheme(): Theme {
  try {
    return themes.find((theme) => theme === localStorage.getItem("theme")) ?? "system";
  } catch {
    // The browser stores nothing.
    return "system";
  }
}

function Person() {
  const { name, signOut } = useSession();
  const [theme, setTheme] = useState(readTheme);
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // It holds until the page is closed.
    }
  }, [theme]);
  return (
    <details
      class="person"
      onKeyDown={({ key, currentTarget }) => {
        if (key !== "Escape") return;
        currentTarget.open = false;
        currentTarget.querySelector("summary")?.focus();
      }}
    >
      <summary>
        <span class="clip" title={name}>
          {name}
        </span>
      </summary>
      <div class="menu">
        <label class="filter">
          <span>Colors</span>
          <select
            value={theme}
            onChange={({ currentTarget }) => setTheme(currentTarget.value as Theme)}
          >
            {themes.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <button type="button" onClick={signOut}>
          Sign out
        </button>
      </div>
    </details>
  );
}
