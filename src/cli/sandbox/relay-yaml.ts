import { stringify } from "yaml";
import { usualWebhook } from "./option-values.ts";

/** What a relay's settings need to know of a sandbox. */
interface ForRelay {
  readonly url: string;
  readonly key: string;
  readonly secret: string;
  readonly service: string;
  readonly plan: string;
  /** Where the sandbox posts events. */
  readonly webhooks: readonly string[];
}

export const firstLine = "# Settings of a relay for the sandbox, made by wamid-relay sandbox.";

/** The settings file of a relay that has the sandbox as its messaging service, and listens where the sandbox posts. */
export function relayYaml({ url, key, secret, service, plan, webhooks }: ForRelay): string {
  const { port, source } = placeOf(webhooks);
  const settings = {
    server: { host: "127.0.0.1", port },
    storage: { path: "data/sandbox-relay.db" },
    control: {
      tokens: [{ name: "ops", token: "${RELAY_TOKEN:-sandbox-relay-token}", scopes: ["read", "track", "send", "replay", "listen"] }],
    },
    // What the relay does not know is a plan without the API: nothing works there anyway.
    accounts: { main: { baseUrl: url, apiKey: inYaml(key), plan: plan === "enterprise" ? plan : "escala" } },
    sources: { [source]: { account: "main", signature: { service, secrets: [inYaml(secret)] } } },
    routes: [{ name: "everything", match: { events: ["*"] }, to: { url: "${APP_URL:-http://127.0.0.1:3000/events}", allowPrivate: true } }],
  };
  return `${firstLine}\n${stringify(settings).trimEnd()}`;
}

/** `${` would be taken for a variable. */
function inYaml(text: string): string {
  return text.replaceAll("${", () => "$${");
}

/** The relay's port and source, where a webhook URL is one of a relay on this machine. */
function placeOf(webhooks: readonly string[]): { port: number; source: string } {
  for (const webhook of webhooks) {
    const { protocol, hostname, port, pathname } = new URL(webhook);
    const [, source] = /^\/webhooks\/([A-Za-z0-9][A-Za-z0-9._-]{0,63})$/.exec(pathname) ?? [];
    if (protocol === "http:" && /^(localhost|127\..+|\[::1\])$/.test(hostname) && source !== undefined) {
      return { port: Number(port || 80), source };
    }
  }
  return placeOf([usualWebhook]);
}
