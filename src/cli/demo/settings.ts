export type DemoFormat = "standard" | "meta";

/** The path of the route that gets every event; each route has one. */
export const everythingPath = "/everything";

export const metaVerifyToken = "demo-verify-token";

export const sourceNames: Readonly<Record<DemoFormat, string>> = { standard: "main", meta: "wa" };

interface SettingsParts {
  readonly format: DemoFormat;
  readonly databasePath: string;
  readonly downstreamUrl: string;
  /** Signs what the sandbox posts. */
  readonly webhook: string;
  /** Of the control API. */
  readonly token: string;
  /** Signs what the relay delivers. */
  readonly downstream: string;
}

/**
 * The settings file of the demo. Retries and the breaker's pause are short, so that a failing
 * downstream and its recovery fit into seconds; everything else is as in production.
 */
export function demoSettings({
  format,
  databasePath,
  downstreamUrl,
  webhook,
  token,
  downstream,
}: SettingsParts): string {
  const isMeta = format === "meta";
  const source = isMeta
    ? `wa: { format: meta, verifyTokens: ["${metaVerifyToken}"], signature: { secrets: ["${webhook}"] }, registerBy: callback-data }`
    : `main: { account: main, kind: events, signature: { service: acme, secrets: ["${webhook}"] } }`;
  const signing = isMeta
    ? `signature: { preset: meta, secret: "${downstream}" }`
    : `secret: "${downstream}"`;
  const destination = (path: string) => `
    to:
      url: ${JSON.stringify(downstreamUrl + path)}
      allowPrivate: true
      timeout: 2s
      retry: { schedule: [0s, 300ms, 600ms, 1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s] }
      breaker: { failures: 5, pause: 500ms, longest: 1s }`;
  return `server: { host: 127.0.0.1, port: 0, shutdownTimeout: 3s }
storage: { path: ${JSON.stringify(databasePath)} }
control: { tokens: [{ name: demo, token: "${token}", scopes: [read, track, replay, pii] }] }
accounts: { main: {} }
sources:
  ${source}
tracking: { unknown: park, parkFor: 1m }
routes:
  - name: everything
    match: { events: ["*"] }${destination(everythingPath)}
      ${signing}
  - name: failures
    match: { events: [message.status], statuses: [failed], tracked: true }
    emit: transitions
    payload: enriched${destination("/failures")}
  - name: statuses
    match: { events: [message.status], tracked: true }
    emit: transitions
    payload: enriched${destination("/statuses")}
`;
}
