/** What the demo's relay is told; the secrets come through its environment, as they would on a server. */
interface DemoPlaces {
  readonly port: number;
  readonly databasePath: string;
  /** The downstream's URL without a path. */
  readonly downstreamUrl: string;
}

/** Paths of the downstream, one per route. */
export const everythingPath = "/everything";
export const answeredPath = "/answered";
export const failuresPath = "/failures";
export const statusesPath = "/statuses";
/** The statuses that the route to `answeredPath` takes. */
export const answeredStatuses = ["delivered", "read"] as const;

/** Names of the environment variables that hold the demo's secrets. */
export const secretNames = { webhook: "DEMO_WEBHOOK_SECRET", token: "DEMO_RELAY_TOKEN", answered: "DEMO_ANSWERED_SECRET" } as const;

/**
 * The settings file of the demo. Retries and the breaker's pause are short, so that a failing
 * downstream and its recovery fit into seconds; everything else is as it would be in earnest.
 */
export function demoSettings({ port, databasePath, downstreamUrl }: DemoPlaces): string {
  const destination = (path: string, more = "") => `
    to:
      url: ${JSON.stringify(downstreamUrl + path)}
      allowPrivate: true${more}
      timeout: 2s
      retry: { schedule: [0s, 300ms, 600ms, 1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s] }
      breaker: { failures: 5, pause: 500ms, longest: 1s }`;
  return `server: { host: 127.0.0.1, port: ${port}, shutdownTimeout: 3s }
storage: { path: ${JSON.stringify(databasePath)} }
control: { tokens: [{ name: demo, token: "\${${secretNames.token}}", scopes: [read, track] }] }
accounts: { main: {} }
sources:
  main: { account: main, kind: events, signature: { service: acme, secrets: ["\${${secretNames.webhook}}"] } }
tracking: { unknown: park, parkFor: 4s }
routes:
  - name: everything
    match: { events: ["*"] }${destination(everythingPath)}
  - name: answered
    match: { events: [message.status], statuses: [${answeredStatuses.join(", ")}] }${destination(answeredPath, `\n      secret: "\${${secretNames.answered}}"`)}
  - name: failures
    match: { events: [message.status], statuses: [failed], tracked: true }
    emit: transitions
    payload: enriched${destination(failuresPath)}
  - name: statuses
    match: { events: [message.status], tracked: true }
    emit: transitions
    payload: enriched${destination(statusesPath)}
`;
}
