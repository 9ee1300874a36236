/** One exchange with an endpoint, for its description. */
export interface Example {
  /** When the answer looks so; absent: always. */
  readonly when?: string;
  /** Default: the first status that the endpoint declares. */
  readonly status?: number;
  readonly request?: unknown;
  readonly answer: unknown;
}

const event = {
  seq: 2,
  id: "01998d3e-7c1a-7000-8000-000000000001",
  event: "message.status",
  account: "main",
  source: "main",
  origin: "webhook",
  receivedAt: "2026-11-21T12:00:00.412Z",
  createdAt: "2026-11-21T12:00:00.000Z",
  secret: "308e7112e69a",
  subject: { type: "message", key: "wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0" },
  status: "delivered",
  previousStatus: "sent",
  transition: true,
  errorCode: null,
  disposition: "routed",
  parkedUntil: null,
  duplicates: 0,
  conflicts: 0,
  fault: null,
  releasedAs: null,
  releasedFrom: null,
  size: 183,
};
const delivery = {
  id: "dlv_01998d3e7c1a70008000000000000001_aba6798bb0a6",
  event: 2,
  eventId: "01998d3e-7c1a-7000-8000-000000000001",
  route: "statuses",
  state: "delivered",
  attempts: 1,
  replays: 0,
  nextAt: null,
  settledAt: "2026-11-21T12:00:00.431Z",
  reason: null,
  cause: null,
};
const attempt = { number: 1, at: "2026-11-21T12:00:00.417Z", tookMs: 14, status: 200, error: null, response: "ok" };
const message = {
  account: "main",
  wamid: "wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEkQ1",
  id: "0199aa10-0000-7000-8000-000000000001",
  conversationId: "0199aa10-0000-7000-8000-000000000002",
  reference: "order-17",
  metadata: null,
  status: "pending",
  errorCode: null,
  times: { pending: "2026-11-21T12:00:00.412Z" },
  registeredAt: "2026-11-21T12:00:00.412Z",
  updatedAt: "2026-11-21T12:00:00.412Z",
  sentAt: "2026-11-21T12:00:00.412Z",
};
const eventSums = {
  received: 2,
  routed: 1,
  filtered: 0,
  ignored: 0,
  quarantined: 1,
  parked: 0,
  accepted: 0,
  released: 0,
  unaccounted: 0,
  duplicates: 0,
  conflicts: 0,
};
const deliverySums = { planned: 1, waiting: 0, held: 0, delivered: 1, dead: 0, swept: 0, unaccounted: 0 };
const session = { name: "ops", scopes: ["read", "replay", "pii"], expiresAt: "2026-11-22T00:00:00.000Z" };

/**
 * By the endpoint's name, for `/v1/openapi.json` and docs/reference/endpoints.md. test/integration/http/endpoints-doc.test.ts compares
 * each with the answer of a relay.
 */
export const examples: Readonly<Record<string, readonly [Example, ...Example[]]>> = {
  getOverview: [
    {
      answer: {
        at: "2026-11-21T12:12:00.120Z",
        relay: {
          version: "1.0.0",
          instance: "5f0c8c1e-3d1c-4f5b-9a3e-8f3c2b6d7e10",
          storage: "sqlite",
          startedAt: "2026-11-21T09:12:00.000Z",
        },
        attention: [
          {
            kind: "destination-failing",
            subject: "crm",
            since: "2026-11-21T12:00:00.412Z",
            waiting: 1204,
            nextAt: "2026-11-21T12:12:40.000Z",
            text: "crm answers 503. 1,204 deliveries wait. Repair the destination. The relay keeps trying; to try at once, retry.",
            action: "retry",
          },
        ],
        goodSince: "2026-11-21T09:12:00.000Z",
        figures: {
          eventsPerSecond: { value: 182, lastHour: [180.5, 182] },
          ackP99Ms: { value: 4.1, lastHour: [4.2, 4.1] },
          oldestDeliverySeconds: { value: 720, lastHour: [660, 720] },
          deliveredShare: { value: 0.992, lastHour: [0.991, 0.993] },
          deadLetters: { value: 17, lastHour: [17, 17] },
        },
        destinations: [
          {
            route: "crm",
            to: "crm.example",
            kind: "url",
            state: "attention",
            reason: "crm answers 503. 1,204 deliveries wait. Repair the destination. The relay keeps trying; to try at once, retry.",
            since: "2026-11-21T12:00:00.412Z",
            waiting: 1204,
            held: 0,
            dead: 0,
            inFlight: 0,
            successLastHour: 0.41,
            p50Ms: null,
            p99Ms: 15000,
            nextAt: "2026-11-21T12:12:40.000Z",
          },
        ],
      },
    },
  ],
  getSeries: [
    {
      answer: {
        name: "events",
        by: "disposition",
        unit: "count",
        step: 60,
        from: "2026-11-21T12:00:00.000Z",
        to: "2026-11-21T12:03:00.000Z",
        series: [
          { label: "routed", values: [118, 120, null], total: 238 },
          { label: "filtered", values: [2, 0, null], total: 2 },
        ],
      },
    },
  ],
  getQuality: [
    {
      answer: {
        sent: 1000,
        delivered: 960,
        read: 512,
        failed: 21,
        pending: 19,
        errors: [
          { code: "131026", meaning: "The phone number has no account on the network.", count: 18 },
          { code: "none", meaning: null, count: 3 },
        ],
        toDelivered: { p50: 1.62, p90: 4.9 },
        toRead: { p50: 48.1, p90: 2210.4 },
        share: 1,
      },
    },
  ],
  listEvents: [{ answer: { data: [{ ...event, deliveries: { delivered: 1 } }], next: 2, unseen: 0 } }],
  getEvent: [
    {
      answer: {
        ...event,
        headers: { "x-acme-signature": "sha256=47122fc5a303d39103d605e3c9198a7f3d95a91be32929ec00a393a4102f359f" },
        body: "eyJpZCI6IjAxOTk4ZDNlLTdjMWEtNzAwMC04MDAwLTAwMDAwMDAwMDAwMSJ9",
        text: '{"id":"01998d3e-7c1a-7000-8000-000000000001"}',
        hydration: null,
        routes: [
          { route: "runs", verdict: "skip", reason: "event" },
          { route: "statuses", verdict: "deliver" },
        ],
        deliveries: [{ ...delivery, tries: [attempt] }],
      },
    },
  ],
  listDeliveries: [{ answer: { data: [delivery], next: null } }],
  groupDeliveries: [
    {
      answer: {
        data: [
          {
            route: "crm",
            state: "waiting",
            cause: "503",
            count: 812,
            oldestAt: "2026-11-21T11:00:00.000Z",
            newestAt: "2026-11-21T12:00:00.000Z",
          },
        ],
      },
    },
  ],
  retryDelivery: [
    {
      answer: {
        id: "dlv_01998d3e7c1a70008000000000000001_aba6798bb0a6",
        route: "statuses",
        state: "waiting",
        previousState: "delivered",
        stopped: null,
        pausedUntil: null,
      },
    },
  ],
  replay: [
    { request: { states: ["delivered"], limit: 1 }, answer: { replayed: 1, next: "1795227556641.1.5" } },
    {
      when: "With `dryRun`: what would be sent, and what cannot, because its route is not in the settings.",
      request: { dryRun: true, states: ["delivered", "dead"] },
      answer: {
        matching: 1,
        routes: [{ route: "statuses", matching: 1, stopped: null }],
        notSent: [{ route: "proxy:flows", matching: 1 }],
      },
    },
    {
      when: "With `disposition: quarantined` and `dryRun`: how many are valid now, and why the others are not.",
      request: { dryRun: true, disposition: "quarantined" },
      answer: { matching: 2, routes: [], notSent: [], invalid: [{ reason: "the body is not valid JSON", events: 1 }] },
    },
  ],
  resumeRoute: [{ answer: { route: "statuses", resumed: false } }],
  resumeAccount: [{ answer: { account: "main", resumed: false, ended: [] } }],
  reconcile: [
    {
      answer: {
        dueBy: "2026-11-21T12:00:00.000Z",
        more: false,
        accounts: [
          {
            account: "main",
            asked: 12,
            changed: 3,
            unchanged: 8,
            missing: 1,
            failed: 0,
            leftForBudget: 0,
            unaskable: 0,
            stopped: null,
            lastsUntil: null,
          },
        ],
      },
    },
  ],
  trackMessages: [
    {
      request: { wamid: "wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0", id: "m1", reference: "order-17", metadata: { team: "support" } },
      answer: { created: 1, known: 0 },
    },
  ],
  sendMessage: [
    {
      request: { to: "+5491155550100", text: "Tu pedido salió.", reference: "order-17" },
      answer: {
        account: "main",
        idempotencyKey: "order-17-left",
        id: "0199aa10-0000-7000-8000-000000000001",
        wamid: "wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEkQ1",
        status: "pending",
        conversationId: "0199aa10-0000-7000-8000-000000000002",
        reference: "order-17",
        stored: true,
      },
    },
  ],
  listMessages: [{ answer: { data: [message], next: null } }],
  getMessage: [{ answer: message }],
  startRun: [
    {
      status: 201,
      request: { reference: "order-17", phone: "+5491155550100", data: { pedido: "17" } },
      answer: {
        account: "main",
        reference: "order-17",
        runId: "0199aa10-0000-7000-8000-000000000003",
        automation: "0199aa10-0000-7000-8000-000000000004",
        created: true,
        stored: true,
      },
    },
  ],
  listRuns: [
    {
      answer: {
        data: [
          {
            account: "main",
            runId: "0199aa10-0000-7000-8000-000000000003",
            reference: "order-17",
            metadata: null,
            status: "started",
            error: null,
            times: { started: "2026-11-21T12:00:00.412Z" },
            registeredAt: "2026-11-21T12:00:00.412Z",
            updatedAt: "2026-11-21T12:00:00.412Z",
          },
        ],
        next: null,
      },
    },
  ],
  moveCursor: [{ request: { seq: 1234 }, answer: { name: "ana", seq: 1234 } }],
  search: [
    {
      answer: {
        data: [
          {
            kind: "message",
            id: "wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEkQ1",
            seq: null,
            account: "main",
            label: "order-17",
            status: "pending",
            at: "2026-11-21T12:00:00.412Z",
          },
        ],
        more: false,
      },
    },
  ],
  explain: [
    {
      answer: {
        data: [
          {
            message: {
              account: "main",
              wamid: "wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEjNFQjBD",
              id: null,
              conversationId: null,
              reference: "order-1234",
              metadata: null,
              status: "delivered",
              errorCode: null,
              times: { sent: "2026-11-21T12:00:00.412Z", delivered: "2026-11-21T12:00:01.017Z" },
              sentAt: null,
              registeredAt: "2026-11-21T11:59:59.820Z",
              updatedAt: "2026-11-21T12:00:01.017Z",
            },
            run: null,
            events: [
              {
                ...event,
                hydration: null,
                waits: null,
                routes: [
                  { route: "runs", verdict: "skip", reason: "event" },
                  { route: "statuses", verdict: "deliver" },
                ],
                deliveries: [
                  {
                    ...delivery,
                    tries: [attempt],
                    earlierTries: 0,
                    next: { kind: "done", at: null, behind: null, ahead: 0, reason: null },
                  },
                ],
              },
            ],
            next: null,
          },
        ],
        unseen: 0,
      },
    },
  ],
  audit: [
    {
      answer: {
        balanced: true,
        at: "2026-11-21T12:00:05.000Z",
        tookMs: 3,
        rows: { events: 2, deliveries: 1, attempts: 1 },
        events: eventSums,
        days: [{ ...eventSums, day: "2026-11-21", source: "main" }],
        deliveries: deliverySums,
        routes: [{ ...deliverySums, route: "statuses" }],
        gone: { swept: 0, missing: 0 },
        broken: {},
        offenders: [],
      },
    },
  ],
  getStats: [
    {
      answer: {
        dispositions: { routed: 1, filtered: 0, ignored: 0, quarantined: 1, parked: 0, accepted: 0, released: 0 },
        duplicates: 0,
        deliveries: { waiting: 0, held: 0, delivered: 1, dead: 0 },
        attempts: { made: 1, failed: 0 },
      },
    },
  ],
  listSecrets: [
    {
      answer: {
        data: [
          {
            source: "main",
            secret: "308e7112e69a",
            place: "sources.main.signature.secrets[0]",
            events: 2,
            duplicates: 1,
            firstAt: "2026-11-21T12:00:00.412Z",
            lastAt: "2026-11-21T12:00:03.902Z",
          },
        ],
      },
    },
  ],
  getInstance: [
    {
      answer: {
        instance: "0b6f2a4e-1f0c-4e4e-9d55-6c6c3f6f3a11",
        version: "1.0.0",
        startedAt: "2026-11-21T12:00:00.412Z",
        pid: 4242,
        host: "relay-1",
        role: "both",
        store: { driver: "sqlite", place: "/var/lib/wamid-relay/relay.db", data: "mWq0b0T0xk1v3l8A", file: "2049:131077" },
        settings: [{ path: "sources.main.signature.secrets[0]", digest: "Zk2pQ0b8c1xwT4nL" }],
      },
    },
  ],
  reloadSettings: [
    {
      answer: {
        result: "applied",
        trigger: "api",
        at: "2026-11-21T12:00:00.000Z",
        loadedAt: "2026-11-21T12:00:00.000Z",
        changed: ["routes[crm].to.secrets", "sources.main.signature.secrets"],
        needRestart: ["server.maxInFlight"],
        overridden: ["CRM_SECRET"],
        faults: [],
      },
    },
  ],
  getReload: [
    {
      answer: {
        result: "refused",
        trigger: "signal",
        at: "2026-11-21T12:05:00.000Z",
        loadedAt: "2026-11-21T12:00:00.000Z",
        changed: [],
        needRestart: [],
        overridden: [],
        faults: [
          {
            path: "routes[0].to.secret",
            message: "needs the environment variable CRM_SECRET, which is not set",
            source: "/etc/wamid-relay/relay.yaml:31:15",
          },
        ],
      },
    },
  ],
  getSettings: [
    {
      answer: {
        loadedAt: "2026-11-21T12:00:00.000Z",
        file: "/etc/wamid-relay/relay.yaml",
        settings: { tracking: { unknown: "park", parkFor: "1m" } },
      },
    },
  ],
  listAccounts: [
    {
      answer: {
        data: [
          {
            account: "main",
            isCallable: true,
            plan: "escala",
            stops: [],
            budget: {
              from: "2026-11-01T03:00:00.000Z",
              until: "2026-12-01T03:00:00.000Z",
              quota: 270_000,
              polls: 41_220,
              others: 12_034,
              left: 216_746,
              pollsNow: 4_100,
            },
            lastPass: {
              endedAt: "2026-11-21T12:00:00.000Z",
              asked: 12,
              changed: 3,
              unchanged: 8,
              missing: 1,
              failed: 0,
              leftForBudget: 0,
              unaskable: 0,
              stopped: null,
              lastsUntil: null,
              unreachableSince: null,
            },
            nextPassAt: "2026-11-21T12:01:00.000Z",
          },
        ],
      },
    },
  ],
  listListeners: [{ answer: { data: [{ name: "ana", connectedAt: null, movedAt: "2026-11-21T12:00:00.000Z", position: 1, lag: 2 }] } }],
  startSession: [
    {
      request: { code: "c.VbUl2e2sSV0n.1795406460000.5Rr7bGJlcVuDdD1mK3x9yA.3vJm0kU3v3G7j8mJdPpYl1w2uWc7d0eA9qQ2c3h0lXk" },
      answer: session,
    },
  ],
  getSession: [{ answer: session }],
  endSession: [{ answer: { ended: true } }],
  createSessionCode: [
    {
      answer: {
        code: "c.VbUl2e2sSV0n.1795406460000.5Rr7bGJlcVuDdD1mK3x9yA.3vJm0kU3v3G7j8mJdPpYl1w2uWc7d0eA9qQ2c3h0lXk",
        expiresAt: "2026-11-21T12:01:00.000Z",
      },
    },
  ],
};
