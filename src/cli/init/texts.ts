import { yamlText } from "../yaml-text.ts";

export interface SettingsParts {
  readonly provider: "standard" | "meta";
  readonly serviceName: string;
  readonly downstream: string;
  readonly storage: "sqlite" | "postgres";
  readonly port: number;
  readonly baseUrl: string | undefined;
  readonly isCallable: boolean;
  readonly database: string;
  readonly isPrivate: boolean;
}

export function settingsText(parts: SettingsParts): string {
  const { provider, downstream, storage, port, database, isPrivate } = parts;
  return `# yaml-language-server: $schema=./relay.schema.json
#
# Settings of wamid-relay, written by "wamid-relay init". Defaults apply to settings that are not here.
#
#   wamid-relay config check    lists every fault with its line
#   wamid-relay config print    prints the settings in effect, secrets as fingerprints
#
# \${NAME} comes from the environment, or from the file .env beside this one.

server:
  # In a container: 0.0.0.0
  host: \${RELAY_HOST:-127.0.0.1}
  port: \${PORT:-${port}}
  # Proxies whose X-Forwarded-For header counts:
  # trustProxy: [loopback]

${storage === "sqlite" ? sqliteText(database) : postgresText}
# Bearer tokens of the control API under /v1. The commands use them too.
control:
  tokens:
    - name: ops
      token: \${RELAY_TOKEN}
      scopes: [read, track, send, replay, listen, pii]

${provider === "meta" ? metaSource : serviceSource(parts)}
# An event goes to every route that matches.
routes:
  - name: downstream
    match:
      events: ["*"]
    to:
      url: ${yamlText(downstream)}
${isPrivate ? "      # The address is not public.\n      allowPrivate: true\n" : ""}${provider === "meta" ? metaSigning : standardSigning}`;
}

const serviceSource = ({
  serviceName,
  baseUrl,
  isCallable,
}: SettingsParts) => `# Accounts at the messaging service.
accounts:
  main:
    # The relay calls the service only with both baseUrl and apiKey: to send messages and to poll statuses.
    ${baseUrl === undefined ? "# baseUrl: https://messaging.example" : `baseUrl: ${yamlText(baseUrl)}`}
    ${isCallable ? "" : "# "}apiKey: \${MESSAGING_API_KEY}
    plan: escala

# Each source is an endpoint. The service posts to this one at /webhooks/main.
sources:
  main:
    signature:
      # The header is x-${serviceName}-signature. "wamid-relay verify" finds the settings for a captured request.
      service: ${yamlText(serviceName)}
      # To rotate, add the new secret first. Remove the old one when "wamid-relay doctor" says so.
      secrets:
        - \${WEBHOOK_SECRET}
`;

const metaSource = `# An account for each customer, or one for all.
accounts:
  main: {}

# Each source is an endpoint. The callback URL of this one ends in /webhooks/wa.
sources:
  wa:
    format: meta
    # The app's dashboard asks for a verify token beside the callback URL. During a change, list both.
    verifyTokens:
      - \${META_VERIFY_TOKEN}
    signature:
      # To rotate, add the new app secret first. Remove the old one when "wamid-relay doctor" says so.
      secrets:
        - \${META_APP_SECRET}
    # Events of every number belong to this account.
    account: main
    # What you send as biz_opaque_callback_data becomes the reference of the message:
    # registerBy: callback-data
    # Numbers of other accounts, by phone_number_id or by the id of their business account (WABA):
    # accounts: { "106540352242922": other }
`;

const standardSigning = `      # The downstream verifies the webhook-signature header with this secret (Standard Webhooks).
      secret: \${DOWNSTREAM_SECRET}
`;

const metaSigning = `      # The relay signs as Meta does. Give the downstream this secret as its app secret.
      # An app that takes Meta's webhooks today needs no change with \${META_APP_SECRET} here.
      signature:
        preset: meta
        secret: \${DOWNSTREAM_SECRET}
      # With the downstream's verify token, "wamid-relay doctor" performs Meta's handshake with it.
      # verifyToken: \${DOWNSTREAM_VERIFY_TOKEN}
`;

/**
 * Absolute, because a relative path starts at the working directory: cron or another folder would
 * make an empty second store.
 */
const sqliteText = (database: string) => `storage:
  driver: sqlite
  # Everything is in this file. The path is absolute, so a copy of these settings uses the same store.
  # For a test restore, name another one first: export RELAY_DATA=/tmp/restored.db
  path: ${/[$}]/.test(database) ? yamlText(database) : JSON.stringify(`\${RELAY_DATA:-${database}}`)}
`;

const postgresText = `storage:
  driver: postgres
  # PostgreSQL 14 or newer. The database must exist; the relay creates its tables. "wamid-relay doctor" checks the server.
  url: \${POSTGRES_URL}
`;

const comments = {
  META_APP_SECRET: "App secret of the app at Meta, which signs its webhooks.",
  META_VERIFY_TOKEN: "Verify token for the dashboard of the app at Meta.",
  WEBHOOK_SECRET: "Secret of the webhook at the messaging service, which signs its events.",
  MESSAGING_API_KEY: "API key of the account at the messaging service.",
  RELAY_TOKEN: "Bearer token of the control API. The wamid-relay commands use it too.",
  DOWNSTREAM_SECRET: "Signs deliveries (Standard Webhooks). Give it to the downstream.",
  POSTGRES_URL: "Address of the PostgreSQL database, with user and password.",
};
export type Variable = keyof typeof comments;

const asMeta = "Signs deliveries as Meta does. Give it to the downstream as its app secret.";

export function envText(variables: ReadonlyMap<Variable, string>): string {
  const commentOf = (name: Variable) =>
    name === "DOWNSTREAM_SECRET" && variables.has("META_APP_SECRET") ? asMeta : comments[name];
  return [
    '# Secrets of relay.yaml, written by "wamid-relay init". Keep this file private and out of version control.',
    ...[...variables].map(([name, value]) => `\n# ${commentOf(name)}\n${name}=${quoted(value)}`),
    "",
  ].join("\n");
}

/** Plain where possible: systemd and docker read quotes in their own ways. */
function quoted(value: string): string {
  if (/^[\w+/=.:@%?&~,-]+$/.test(value)) return value;
  const quote = ["'", '"', "`"].find((each) => !value.includes(each)) ?? "'";
  return `${quote}${value}${quote}`;
}
