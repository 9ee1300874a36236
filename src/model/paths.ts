/**
 * The endpoints of the control API by name: the method of the client and the OpenAPI operation id.
 * Without zod, because browsers load this list. model/endpoints has the rest.
 */
export const paths = {
  getHealth: "GET /healthz",
  getReadiness: "GET /readyz",
  describe: "GET /v1/openapi.json",
  getOverview: "GET /v1/overview",
  getSeries: "GET /v1/series",
  getQuality: "GET /v1/quality",
  listEvents: "GET /v1/events",
  getEvent: "GET /v1/events/:id",
  listDeliveries: "GET /v1/deliveries",
  groupDeliveries: "GET /v1/deliveries/groups",
  listMessages: "GET /v1/messages",
  sendMessage: "POST /v1/messages",
  getMessage: "GET /v1/messages/:wamid",
  listRuns: "GET /v1/runs",
  search: "GET /v1/search",
  getStats: "GET /v1/stats",
  listSecrets: "GET /v1/secrets",
  listSources: "GET /v1/sources",
  checkSource: "POST /v1/sources/:source/check",
  getInstance: "GET /v1/instance",
  reloadSettings: "POST /v1/reload",
  getReload: "GET /v1/reload",
  getSettings: "GET /v1/settings",
  listListeners: "GET /v1/listeners",
  retryDelivery: "POST /v1/deliveries/:id/retry",
  replay: "POST /v1/replay",
  resumeRoute: "POST /v1/routes/:route/resume",
  performHandshake: "POST /v1/routes/:route/handshake",
  resumeAccount: "POST /v1/accounts/:account/resume",
  startRun: "POST /v1/automations/:id/runs",
  audit: "GET /v1/audit",
  explain: "GET /v1/explain/:name",
  reconcile: "POST /v1/reconcile",
  listAccounts: "GET /v1/accounts",
  listen: "GET /v1/listen",
  moveCursor: "POST /v1/listen/cursors/:name",
  startSession: "POST /v1/session",
  getSession: "GET /v1/session",
  endSession: "POST /v1/session/end",
  createSessionCode: "POST /v1/session/code",
  live: "GET /v1/live",
  trackMessages: "POST /v1/messages/track",
} as const satisfies Readonly<Record<string, `${"GET" | "POST"} /${string}`>>;

export type Paths = typeof paths;
export type EndpointName = keyof Paths;

export type ParametersOf<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParametersOf<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;
