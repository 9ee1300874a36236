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
}

export interface SendBody {
  readonly code?: string;
  readonly wamid?: string;
  readonly id?: string;
  readonly stored?: boolean;
  readonly details?: { readonly justNow: boolean; readonly resend: number };
}

/** A real relay process, with a sandbox in this process as its messaging service. */
export async function startPair({ account, sandbox: options }: { account?: object; sandbox?: SandboxOptions } = {}): Promise<Pair> {
  const pair = { whenMade: null as (() => void) | null };
  const onHappening = (happening: Happening) => {
    if (happening.what === "message" && happening.message.origin === "api" && happening.message.status === "pending") pair.whenMade?.();
  };
  const sandbox = await startSandbox({ plan: "enterprise", isUnlimited: true, onHappening, ...options });
  sandbox.customerWrites(phone, "Hola");
  const relay = await makeRelay({
    settings: { accounts: { main: { baseUrl: sandbox.url, apiKey: sandbox.key, plan: "enterprise", share: 1, ...account } } },
  });
  onTestFinished(() => sandbox.close());
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
  });
}
