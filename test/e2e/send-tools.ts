import { onTestFinished } from "vitest";
import { type Happening, type Sandbox, type SandboxOptions, startSandbox } from "../../src/sandbox/start-sandbox.ts";
import { makeRelay, type RelayProcess } from "../harness/relay-process.ts";
import { relayToken } from "../harness/relay-settings.ts";

export const phone = "+5491155550100";

export interface Pair {
  readonly sandbox: Sandbox;
  readonly relay: RelayProcess;
  /** Called when the service has made a message, before its answer leaves. */
  whenMade: (() => void) | null;
  /** The text of a message is its key. Null: no answer. */
  send(key: string, query?: string): Promise<{ status: number; body: SendBody } | null>;
  /** Messages at the service, by key. */
  made(key: string): number;
  /** Ends both, and keeps the relay's folder when asked to. */
  dispose(keep?: boolean): Promise<void>;
}

export interface SendBody {
  readonly code?: string;
  readonly wamid?: string;
  readonly id?: string;
  readonly stored?: boolean;
  readonly details?: { readonly justNow: boolean; readonly resend: number };
}

interface PairOptions {
  readonly account?: object;
  readonly sandbox?: SandboxOptions;
}

/** The same for one test, disposed of at its end. */
export async function startPair(options: PairOptions = {}): Promise<Pair> {
  const pair = await openPair(options);
  onTestFinished(({ task }) => pair.dispose(task.result?.state === "fail"));
  return pair;
}

/** A real relay process, with a sandbox in this process as its messaging service. */
export async function openPair({ account, sandbox: options }: PairOptions = {}): Promise<Pair> {
  const pair = { whenMade: null as (() => void) | null };
  const onHappening = (happening: Happening) => {
    if (happening.what === "message" && happening.message.origin === "api" && happening.message.status === "pending") pair.whenMade?.();
  };
  const sandbox = await startSandbox({ plan: "enterprise", isUnlimited: true, onHappening, ...options });
  sandbox.customerWrites(phone, "Hola");
  const relay = await makeRelay({
    settings: { accounts: { main: { baseUrl: sandbox.url, apiKey: sandbox.key, plan: "enterprise", share: 1, ...account } } },
  });
  await relay.start();
  return Object.assign(pair, {
    sandbox,
    relay,
    async send(key: string, query = "") {
      try {
        const answer = await fetch(`${relay.url}/v1/messages${query}`, {
          method: "POST",
          headers: { authorization: `Bearer ${relayToken}`, "content-type": "application/json", "idempotency-key": key },
          body: JSON.stringify({ to: phone, text: key }),
        });
        return { status: answer.status, body: (await answer.json()) as SendBody };
      } catch {
        return null;
      }
    },
    made: (key: string) => sandbox.messages().filter(({ origin, text }) => origin === "api" && text === key).length,
    async dispose(keep = false) {
      await relay.dispose(keep);
      await sandbox.close();
    },
  });
}
