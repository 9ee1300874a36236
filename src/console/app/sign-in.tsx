import { useState } from "preact/hooks";
import type { RelaySession } from "../../client/relay-client.ts";
import { errorText, relay } from "./api.ts";

interface SignInProps {
  /** Why the person is not signed in; null on a first visit. */
  readonly reason: string | null;
  /** Throws when the session does not allow the console. */
  signedIn(session: RelaySession): void;
}

export function SignIn({ reason, signedIn }: SignInProps) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(reason);
  const [isBusy, setBusy] = useState(false);

  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    try {
      signedIn(await relay.startSession({ token: token.trim() }));
    } catch (error) {
      setProblem(errorText(error));
      setBusy(false);
    }
  }

  return (
    <main class="sign-in">
      <h1>wamid-relay</h1>
      <form onSubmit={submit}>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          required
          autofocus
          value={token}
          onInput={({ currentTarget }) => setToken(currentTarget.value)}
          aria-describedby="token-help"
        />
        <button type="submit" class="primary" disabled={isBusy || token.trim() === ""}>
          Sign in
        </button>
        <p id="token-help" class="dim">
          One of <code>control.tokens</code> in the settings. Or run{" "}
          <code>wamid-relay console</code>, which signs you in.
        </p>
      </form>
      <p class="problem" role="alert">
        {problem}
      </p>
    </main>
  );
}
