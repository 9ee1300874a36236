const withoutApi = { api: false, requests: 0, messages: 0, apiCalls: 0, deliveries: 0, keys: 0, urls: 0 } as const;

/**
 * What each plan allows (messaging-service-api.md, "Limits"); null is unlimited. `api: false`: the API and
 * webhooks are not part of the plan.
 */
export const plans = {
  trial: { ...withoutApi, steps: 2_000, automationRequests: 200, apps: 3, toolCalls: 20 },
  growth: { ...withoutApi, steps: 25_000, automationRequests: 5_000, apps: 10, toolCalls: 30 },
  escala: {
    api: true,
    requests: 300,
    messages: 60,
    apiCalls: 300_000,
    deliveries: 500_000,
    keys: 10,
    urls: 5,
    steps: 200_000,
    automationRequests: 50_000,
    apps: 25,
    toolCalls: 60,
  },
  enterprise: {
    api: true,
    requests: 1_200,
    messages: 300,
    apiCalls: null,
    deliveries: null,
    keys: 50,
    urls: 25,
    steps: null,
    automationRequests: null,
    apps: null,
    toolCalls: 120,
  },
} as const satisfies Record<string, PlanLimits>;

export interface PlanLimits {
  /** May use the API and webhooks at all. */
  readonly api: boolean;
  /** Requests to the API a minute, all routes. */
  readonly requests: number;
  /** `POST /messages` a minute. */
  readonly messages: number;
  /** API calls a month. */
  readonly apiCalls: number | null;
  /** Webhook deliveries a month. */
  readonly deliveries: number | null;
  /** Valid API keys. */
  readonly keys: number;
  /** Webhook URLs. */
  readonly urls: number;
  /** Automation steps a month. */
  readonly steps: number | null;
  /** Automation HTTP requests a month. */
  readonly automationRequests: number | null;
  /** Connected AI apps. */
  readonly apps: number | null;
  /** MCP tool calls a minute, per app. */
  readonly toolCalls: number;
}

/** The next plan up, as `cause.suggested`; null at the top. */
export const suggestedPlan = { trial: "escala", growth: "escala", escala: "enterprise", enterprise: null } as const;
