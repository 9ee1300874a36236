import proxyAddr from "@fastify/proxy-addr";
import { z } from "zod";
import { destinationSchema, payloadSchema } from "../deliver/settings.ts";
import { hydrateSchema } from "../hydrate/settings.ts";
import { secretSchema } from "../model/secret.ts";
import { durationSchema, sizeSchema } from "../model/units.ts";
import { type ListenTls, listenTlsSchema, tlsSchema } from "../net/tls.ts";
import { tracesSchema } from "../observe/settings.ts";
import { reconcileSchema, silenceSchema } from "../reconcile/settings.ts";
import { nameSchema as name, routingSchema, trackingSchema } from "../route/settings.ts";
import { sendSettingsSchema } from "../send/settings.ts";
import { apiKeySchema, baseUrlSchema, isApiKey, planSchema } from "../service/settings.ts";
import { backupSchema, storageSchema } from "../store/settings.ts";
import { destinationFaults, withRule } from "./rules.ts";
import { sourceSchema } from "./source-schema.ts";

/** Checked by the library that uses the value, so that a valid one works there. */
function isProxyRange(text: string): boolean {
  try {
    proxyAddr.compile([text]);
    return true;
  } catch {
    return false;
  }
}

export const serverSchema = z.strictObject({
  host: z.string().min(1).default("0.0.0.0").describe("Address to listen on."),
  // A port from `${PORT}` becomes a number while loading (`coerceVariables` in load.ts).
  port: z
    .number()
    .int()
    .min(0)
    .max(65535)
    .default(8080)
    .describe("Port to listen on; 0 is any free port."),
  control: z
    .strictObject({
      host: z.string().min(1).default("127.0.0.1").describe("Address of the control port."),
      port: z.number().int().min(1).max(65535).describe("The control port; not server.port."),
      tls: listenTlsSchema
        .optional()
        .describe("Makes the control port HTTPS. A reload takes a renewed certificate."),
    })
    .optional()
    .describe(
      "Moves the control API, the console, the metrics and the full /readyz to an address of their own.",
    ),
  tls: listenTlsSchema
    .optional()
    .describe("Makes the port HTTPS. A reload takes a renewed certificate."),
  trustProxy: z
    .array(
      z
        .string()
        .refine(
          isProxyRange,
          "is not an address, a range such as 10.0.0.0/8, loopback, linklocal or uniquelocal",
        ),
    )
    .default([])
    .describe(
      "Proxies whose X-Forwarded-For is trusted: addresses, CIDR ranges, or loopback, linklocal, uniquelocal. Entries may have a port. With one, a stop first ends each connection with its next answer, for at most 1 s: otherwise the proxy may answer 502.",
    ),
  bodyLimit: sizeSchema
    .refine((bytes) => bytes >= 1024 && bytes <= 64 * 1024 ** 2, "must be from 1KiB to 64MiB")
    .prefault("1MiB")
    .describe("Largest body of a webhook, 1KiB to 64MiB. The relay answers a larger one with 413."),
  requestTimeout: durationSchema
    .refine((ms) => ms >= 1000, "must be at least 1s")
    .prefault("10s")
    .describe(
      "Longest time for a request to arrive completely, at least 1s. After that the relay answers 408. It also closes a connection whose client reads nothing of an answer for this long.",
    ),
  maxInFlight: z
    .number()
    .int()
    .min(1)
    .default(4096)
    .describe("Most requests in flight at once. The relay answers others with 503."),
  badSignatureLimit: z
    .number()
    .int()
    .min(1)
    .default(20)
    .describe(
      "Bad signatures per minute from one address. Further ones get 429; right ones are accepted.",
    ),
  shutdownTimeout: durationSchema
    .prefault("10s")
    .describe(
      "On SIGTERM: longest time for deliveries in flight to finish. Then the relay hands them back.",
    ),
});

/** `pii`: wamids, phone numbers and bodies in clear. */
export const scopes = ["read", "track", "send", "replay", "listen", "pii"] as const;
export type Scope = (typeof scopes)[number];

/** A token guards people's messages. 16 characters of hex are 64 bits. */
const shortestToken = 16;

export const tokenSchema = z.strictObject({
  name: name.describe("Stands for the token in logs."),
  token: secretSchema
    .refine(
      isApiKey,
      "holds characters that no Authorization header carries (a space or line break?)",
    )
    .refine(
      (token) => token.reveal().length >= shortestToken,
      `is shorter than ${shortestToken} characters ("openssl rand -hex 32" makes a good one)`,
    )
    .describe(`The bearer token; at least ${shortestToken} characters.`),
  scopes: z.array(z.enum(scopes)).min(1).describe("What the token may do."),
  accounts: z
    .array(name)
    .min(1)
    .optional()
    .describe(
      "The only accounts that it may see and act on; commands that read these settings do not use it. Default: all, and what is about the whole relay.",
    ),
});

const controlSchema = z.strictObject({
  tokens: z
    .array(tokenSchema)
    .prefault([])
    .describe("Who may use the control API. Names and tokens are unique."),
  badTokenLimit: z
    .number()
    .int()
    .min(1)
    .max(1_000_000)
    .default(20)
    .describe(
      "Bad or missing tokens per minute from one address. After that this process answers it with 429.",
    ),
});

const accountSchema = z.strictObject({
  baseUrl: baseUrlSchema
    .optional()
    .describe(
      "The service's base URL, to which the relay adds /api/v1. Required only to call the service.",
    ),
  apiKey: apiKeySchema
    .optional()
    .describe("The account's API key. Required only to call the service."),
  tls: tlsSchema.optional().describe("Authorities and client certificate for the service."),
  plan: planSchema
    .default("escala")
    .describe(
      "Caps per minute. escala: 300 requests, of which 60 messages. enterprise: 1,200 requests, of which 300 messages.",
    ),
  share: z
    .number()
    .gt(0)
    .max(1)
    .default(0.5)
    .describe(
      "Share of these caps that the relay may use: rounded down, at least one call per minute.",
    ),
});

const routeSchema = withRule(
  routingSchema.extend({
    payload: payloadSchema
      .default("original")
      .describe(
        "original: the received bytes, or of a request with several events, one with this event alone. standard: the envelope {id, event, createdAt, data}. enriched: that with a relay object added.",
      ),
    to: destinationSchema.describe("Where its deliveries go: a url, a queue or a stream."),
    shards: z
      .number()
      .int()
      .min(1)
      .max(64)
      .default(1)
      .describe(
        "With PostgreSQL: parts of the route that workers deliver side by side. concurrency and breaker count per shard; rate is divided.",
      ),
  }),
  function* ({ payload, to }) {
    if (to.passSignature && payload === "enriched") {
      yield {
        path: ["to", "passSignature"],
        message: "could never verify: payload enriched changes the bytes that were signed",
      };
    }
    yield* destinationFaults(to);
  },
);

const retentionSchema = z.strictObject({
  events: durationSchema
    .prefault("30d")
    .describe(
      "How long events and their bytes are kept. An event stays while a delivery of it does.",
    ),
  ignored: durationSchema
    .prefault("1d")
    .describe("How long events of unregistered messages are kept, and their status."),
  deliveries: durationSchema
    .prefault("30d")
    .describe("How long deliveries and their attempts are kept after they were delivered or died."),
  messages: durationSchema
    .prefault("180d")
    .describe("How long registered messages and runs are kept after their last event."),
  history: durationSchema
    .refine((ms) => ms >= 3 * 24 * 3_600_000, "must be at least 3d")
    .prefault("400d")
    .describe(
      "How long the counts of /v1/series and /v1/quality are kept, at least 3d. Minutes become hours after two days.",
    ),
});

const fileSchema = z.strictObject({
  server: serverSchema
    .prefault({})
    .describe("Where the relay listens, and the bounds of requests."),
  storage: storageSchema
    .prefault({})
    .describe(
      "The storage engine: one file, or a PostgreSQL database that several processes share.",
    ),
  backup: backupSchema.prefault({}).describe("Scheduled backups of the SQLite file."),
  control: controlSchema.prefault({}).describe("Access to the control API and the console."),
  accounts: z
    .record(name, accountSchema)
    .prefault({})
    .describe("Accounts at the messaging service, by name."),
  sources: z
    .record(name, sourceSchema)
    .prefault({})
    .describe("Inbound endpoints by name. The path of main is /webhooks/main."),
  tracking: z
    .strictObject({
      unknown: trackingSchema
        .default("park")
        .describe(
          "What a route with tracked: true does with events of unregistered messages. park: hold them for parkFor. ignore: skip them. forward: take them.",
        ),
      parkFor: durationSchema
        .prefault("60s")
        .describe("How long a registration may come after the event."),
    })
    .prefault({})
    .describe("Events of messages that are not registered."),
  routes: z
    .array(routeSchema)
    .prefault([])
    .describe("Which events go where. An event goes to every route that it matches."),
  send: sendSettingsSchema.prefault({}).describe("Sending through the relay."),
  hydrate: hydrateSchema
    .prefault({})
    .describe("Reading through the API what truncated events are about."),
  reconcile: reconcileSchema
    .prefault({})
    .describe("Polling the service for messages whose status went quiet."),
  silence: silenceSchema.prefault({}).describe("When missing webhooks raise an alarm."),
  retention: retentionSchema
    .prefault({})
    .describe(
      "How long rows are kept. Waiting and held deliveries stay with their events, whatever their age.",
    ),
  log: z
    .strictObject({
      level: z
        .enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"])
        .default("info")
        .describe("The lowest level that is written."),
      format: z
        .enum(["auto", "json", "pretty"])
        .default("auto")
        .describe("auto: pretty on a terminal, json everywhere else."),
      pii: z
        .enum(["masked", "clear"])
        .default("masked")
        .describe(
          "Whether wamids, phone numbers and ids that may contain them are masked. Secrets always are.",
        ),
    })
    .prefault({})
    .describe("Logs, which go to standard output."),
  traces: tracesSchema.prefault({}).describe("OpenTelemetry traces; off without an endpoint."),
});

export function onlyAccount(accounts: readonly string[]): string | undefined {
  return accounts.length === 1 ? accounts[0] : undefined;
}

/** The settings file, before `checkReferences` refuses a source whose account stays unknown. */
export const settingsSchema = fileSchema.transform((file) => {
  const only = onlyAccount(Object.keys(file.accounts)) ?? "";
  const sources = Object.entries(file.sources).map(([key, source]) => {
    const isMapped =
      source.kind === "events" && source.format !== "standard" && source.accounts !== undefined;
    return [key, { ...source, account: source.account ?? (isMapped ? "" : only) }] as const;
  });
  return { ...file, sources: Object.fromEntries(sources) };
});

export type Settings = z.infer<typeof settingsSchema>;
export type SourceSettings = Settings["sources"][string];
export type AccountSettings = Settings["accounts"][string];
export type TokenSettings = Settings["control"]["tokens"][number];

/**
 * For zod. Settings are read once or twice in a process: compiling code for that takes longer than
 * it saves.
 */
export const readOnce = { jitless: true } as const;

/**
 * A reload does not change these: a running process keeps them, except for renewed certificates.
 */
export const restartParts = [
  "server",
  "storage",
  "log",
  "traces",
] as const satisfies readonly (keyof Settings)[];

export function keptAfterReload(
  { server, ...initial }: Settings,
  next: Pick<Settings, "server">,
): Pick<Settings, (typeof restartParts)[number]> {
  const { storage, log, traces } = initial;
  const control = server.control && { control: renewed(server.control, next.server.control) };
  return { server: { ...renewed(server, next.server), ...control }, storage, log, traces };
}

/**
 * `port` with the certificates of `next`, unless TLS or its client certificates would begin or end.
 */
function renewed<Port extends { readonly tls?: ListenTls | undefined }>(
  port: Port,
  next: Pick<Port, "tls"> | undefined,
): Port {
  const { tls } = next ?? {};
  const isSameKind =
    port.tls !== undefined &&
    tls !== undefined &&
    (port.tls.ca === undefined) === (tls.ca === undefined);
  return isSameKind ? { ...port, tls } : port;
}
