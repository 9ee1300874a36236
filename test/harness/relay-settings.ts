/** The token of the control API in tests, with every scope. */
export const relayToken = "harness-control-token";
/** The secret of the one source, `main`, that signs as `x-acme-signature` does by default. */
export const webhookSecret = "harness-webhook-secret";

/**
 * A part of a settings file, as plain data. Keys given replace those of {@link settingsOf} whole.
 */
export type SettingsParts = Readonly<Record<string, unknown>>;

export interface Places {
  readonly port: number;
  readonly storePath: string;
}

/**
 * A whole settings file as plain data (JSON is YAML): one account and one source called `main`, no
 * routes. `server` and `storage` are merged, because port and path are the harness's own.
 */
export function settingsOf(
  { port, storePath }: Places,
  parts: SettingsParts = {},
): Record<string, unknown> {
  return {
    control: {
      tokens: [
        {
          name: "harness",
          token: relayToken,
          scopes: ["read", "track", "send", "replay", "listen", "pii"],
        },
      ],
    },
    accounts: { main: {} },
    sources: {
      main: { account: "main", signature: { service: "acme", secrets: [webhookSecret] } },
    },
    log: { level: "info" },
    ...parts,
    server: { host: "127.0.0.1", port, ...(parts["server"] as object | undefined) },
    storage: {
      ...storageDefaults(parts["storage"], storePath),
      ...(parts["storage"] as object | undefined),
    },
  };
}

function storageDefaults(storage: unknown, path: string): object {
  const { driver } = (storage ?? {}) as { readonly driver?: string };
  return driver === "postgres" ? {} : { path };
}

/**
 * A route of everything to `url`, whose failures are retried for two minutes and its breaker closed
 * again within moments.
 */
export function routeTo(
  url: string,
  more: { readonly name?: string; readonly to?: object } & SettingsParts = {},
): Record<string, unknown> {
  const { to, ...rest } = more;
  return {
    name: "everything",
    ...rest,
    to: {
      url,
      allowPrivate: true,
      retry: { schedule: ["0s", ...Array.from({ length: 600 }, () => "200ms")], jitter: 0 },
      breaker: { failures: 10, pause: "200ms", longest: "200ms" },
      ...to,
    },
  };
}
