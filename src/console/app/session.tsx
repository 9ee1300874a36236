import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { RelaySession } from "../../client/relay-client.ts";
import { errorText, isSignedOut, isUnavailable, relay } from "./api.ts";
import { now } from "./clock.ts";
import { SignIn } from "./sign-in.tsx";

type Scope = "read" | "track" | "send" | "replay" | "listen" | "pii";

interface Session {
  readonly name: string;
  /** To some accounts: what is about the whole relay gets 403. */
  readonly isLimited: boolean;
  can(scope: Scope): boolean;
  signOut(): void;
}

const SessionContext = createContext<Session | null>(null);

/** The signed-in token's name and rights. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("used outside SessionGate");
  return session;
}

type State =
  /** `problem`: why it asks again. */
  | { readonly kind: "asking"; readonly problem: string | null }
  | { readonly kind: "signed-out"; readonly reason: string | null }
  | { readonly kind: "signed-in"; readonly session: RelaySession };

const askAgainMs = 3_000;
const sessionEnded = "Your session has ended. Sign in again.";

export const lacksRead = (token: string): string =>
  `The token "${token}" lacks the scope read, which the console needs. Sign in with another one.`;

/** Called when any request is answered 401: the session has expired, or its token has changed. */
const expired = new Set<(reason: string) => void>();
export function reportError(error: unknown): void {
  if (isSignedOut(error)) endSession(sessionEnded);
}

/** Shows the sign-in page, and why. */
export function endSession(reason: string): void {
  for (const notify of expired) notify(reason);
}

/** Shows `children` to signed-in people, and the sign-in page to everybody else. The URL stays. */
export function SessionGate({ children }: { children: ComponentChildren }) {
  const [state, setState] = useState<State>({ kind: "asking", problem: null });

  useEffect(() => {
    const code = new URLSearchParams(window.location.hash.slice(1)).get("code");
    // At once, so that the code is in no history.
    if (code !== null)
      window.history.replaceState(null, "", window.location.pathname + window.location.search);
    ask(code);
  }, []);

  function ask(code: string | null): void {
    const session = code === null ? relay.getSession() : relay.startSession({ code });
    session.then(enter).catch((error: unknown) => {
      if (isUnavailable(error)) {
        setState({ kind: "asking", problem: errorText(error) });
        setTimeout(ask, askAgainMs, code);
      } else
        setState({
          kind: "signed-out",
          reason: code === null && isSignedOut(error) ? null : errorText(error),
        });
    });
  }

  function enter(session: RelaySession): void {
    if (!session.scopes.includes("read")) throw new Error(lacksRead(session.name));
    setState({ kind: "signed-in", session });
  }

  const expiresAt = state.kind === "signed-in" ? state.session.expiresAt : null;
  useEffect(() => {
    if (expiresAt === null) return undefined;
    const end = (reason: string) => setState({ kind: "signed-out", reason });
    expired.add(end);
    const timer = setTimeout(end, Date.parse(expiresAt) - now(), sessionEnded);
    return () => {
      expired.delete(end);
      clearTimeout(timer);
    };
  }, [expiresAt]);

  if (state.kind === "asking")
    return (
      <p class="boot" role="status">
        {state.problem === null ? "Loading…" : `▲ ${state.problem}; trying again`}
      </p>
    );
  if (state.kind === "signed-out") return <SignIn reason={state.reason} signedIn={enter} />;
  const { name, scopes, accounts } = state.session;
  const session: Session = {
    name,
    isLimited: accounts !== null,
    can: (scope) => scopes.includes(scope),
    signOut: () => {
      relay.endSession().then(
        () => setState({ kind: "signed-out", reason: null }),
        (error: unknown) =>
          setState({
            kind: "signed-out",
            reason: `You may still be signed in: ${errorText(error)}`,
          }),
      );
    },
  };
  return <SessionContext.Provider value={session}>{children}</SessionContext.Provider>;
}
