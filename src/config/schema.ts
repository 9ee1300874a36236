import proxyAddr from "@fastify/proxy-addr";
import { z } from "zod";
import {
  type DestinationSettings,
  destinationSchema,
  payloadSchema,
  urlDestinationSchema,
} from "../deliver/settings.ts";
import { hydrateSchema } from "../hydrate/settings.ts";
import { fieldsSchema } from "../model/event.ts";
import { type Secret, secretSchema } from "../model/secret.ts";
import { decodeKey, resolveScheme, signatureSettingsSchema } from "../model/signature.ts";
import { durationSchema, sizeSchema } from "../model/units.ts";
import { isPrivateHost } from "../net/addresses.ts";
import { type ListenTls, listenTlsSchema, tlsSchema } from "../net/tls.ts";
import { tracesSchema } from "../observe/settings.ts";
import { reconcileSchema, silenceSchema } from "../reconcile/settings.ts";
import { nameSchema as name, routingSchema, trackingSchema } from "../route/settings.ts";
import { sendSettingsSchema } from "../send/settings.ts";
import { apiKeySchema, baseUrlSchema, isApiKey, planSchema } from "../service/settings.ts";
import { backupSchema, storageSchema } from "../store/settings.ts";
import type { Finding } from "./tree.ts";

/** Adds a rule about several settings of one part. It applies once each of them is valid. */
function withRule<Schema extends z.ZodType>(
  schema: Schema,
  rule: (part: z.infer<Schema>) => Iterable<Finding>,
): Schema {
  return schema.superRefine(
    (part, context) => {
      for (const { path, message } of rule(part))
        context.addIssue({ code: "custom", path: [...path], message });
    },
    { when: ({ issues }) => issues.length === 0 },
  );
}

/** Indices of texts that repeat an earlier one, each with the index of its first occurrence. */
export function repeated(items: readonly unknown[]): [index: number, first: number][] {
  return items.flatMap((item, index): [number, number][] => {
    const first = items.indexOf(item);
    return typeof item === "string" && first < index ? [[index, first]] : [];
  });
}

function* repeatedSecrets(secrets: readonly Secret[], path: Finding["path"]): Generator<Finding> {
  for (const [index, first] of repeated(secrets.map((secret) => secret.reveal()))) {
    yield { path: [...path, index], message: `is the same secret as secrets[${first}]` };
  }
}

function* destinationFaults(to: DestinationSettings): Generator<Finding> {
  const { secret, secrets = [] } = to;
  if (secret !== undefined && secrets.length > 0) {
    yield { path: ["to", "secrets"], message: "is given beside secret; give one of the two" };
  }
  yield* repeatedSecrets(secrets, ["to", "secrets"]);
  if (!("url" in to)) return;
  if (!to.allowPrivate && isPrivateHost(to.url)) {
    const message =
      "is a loopback, private or otherwise not public address; if that is intended, set allowPrivate: true beside it";
    yield { path: ["to", "url"], message };
  }
  if (to.signature === undefined) return;
  // The others would sign other bytes, or write the same header.
  for (const key of ["secret", "secrets", "passSignature"] as const) {
    if (to[key] !== undefined && to[key] !== false) {
      yield { path: ["to", "signature"], message: `is given beside ${key}; give one of the two` };
    }
  }
}

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
      "Proxies whose X-Forwarded-For is trusted: addresses, CIDR ranges, or loopback, linklocal, uniquelocal. Entries may have a port.",
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
      "Bad signatures per minute from one address. After that the relay answers it with 429.",
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

const sourceSignatureSchema = withRule(
  signatureSettingsSchema.safeExtend({
    secrets: z
      .array(secretSchema)
      .min(1)
      .describe(
        "Any of these may verify an event; several at once for rotation, the new one first.",
      ),
  }),
  function* (signature) {
    const { secretEncoding } = resolveScheme(signature);
    yield* repeatedSecrets(signature.secrets, ["secrets"]);
    for (const [index, secret] of signature.secrets.entries()) {
      try {
        decodeKey(secret.reveal(), secretEncoding);
      } catch {
        yield {
          path: ["secrets", index],
          message: `is not in the encoding of secretEncoding (${secretEncoding})`,
        };
      }
    }
  },
);

const formatNames = "standard: the service's envelope. meta: webhooks of Meta's Cloud API.";
const kindNames =
  "events: webhook events. automation-request: signed requests of automation steps.";
const eventsKind = z.literal("events").default("events").describe(kindNames);
const accountOfEvents = name
  .optional()
  .describe("The account of its events: a key of accounts. Default: the only account.");

const signed = sourceSignatureSchema.describe("How webhooks are verified.");

const standardSourceSchema = z.strictObject({
  account: accountOfEvents,
  format: z.literal("standard").default("standard").describe(formatNames),
  kind: eventsKind,
  signature: signed,
  fields: fieldsSchema.prefault({}).describe("Where in data the tracked fields are."),
});

const metaSignatureSchema = z.preprocess(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    !["preset", "header", "service"].some((key) => key in value)
      ? { preset: "meta", ...value }
      : value,
  sourceSignatureSchema,
);

const secrets = z.array(secretSchema).min(1);
const metaId = z.string().regex(/^\d{1,32}$/, "is not an id of digits");

/** Senders that pass Meta's webhooks on have other checks. Each one that is given must pass. */
const metaSourceSchema = withRule(
  z.strictObject({
    account: name
      .optional()
      .describe(
        "The account of events whose number is not in accounts. Default: the only account, unless accounts is given.",
      ),
    format: z.literal("meta").describe(formatNames),
    kind: eventsKind,
    accounts: z
      .record(metaId, name)
      .optional()
      .describe(
        "The account of each business number: phone_number_id, or the id of the business account (WABA), to a key of accounts.",
      ),
    verifyTokens: z
      .array(secretSchema)
      .default([])
      .describe("Tokens of Meta's handshake: any of them is answered."),
    signature: metaSignatureSchema
      .optional()
      .describe("How webhooks are verified. Default: as Meta signs, with the app secret."),
    header: z
      .strictObject({
        name: z
          .string()
          .regex(/^[A-Za-z0-9-]+$/, "is not a header name")
          .describe("Its name."),
        values: secrets.describe("Any of these is right."),
      })
      .optional()
      .describe("A fixed header that the sender adds, such as 360dialog can."),
    pathSecrets: secrets
      .optional()
      .describe(
        "For senders that sign nothing: any of these is the last part of the URL, as in /webhooks/wa/<secret>.",
      ),
    graph: z
      .strictObject({
        token: secretSchema.describe("An access token with whatsapp_business_management."),
        businessAccounts: z
          .array(metaId)
          .min(1)
          .max(20)
          .describe("The ids of the business accounts (WABA) whose numbers the source takes."),
        appId: metaId
          .optional()
          .describe(
            "The app's id. With it, the app's own callback is read with the first app secret.",
          ),
        baseUrl: z
          .url({ protocol: /^https?$/ })
          .default("https://graph.facebook.com/v25.0")
          .describe("The Graph API with its version."),
      })
      .optional()
      .describe(
        "Lets doctor ask Meta's Graph API whether webhooks go to this source, and if not, where.",
      ),
    registerBy: z
      .literal("callback-data")
      .optional()
      .describe(
        "callback-data: a status with biz_opaque_callback_data registers its message, with it as the reference.",
      ),
  }),
  function* ({ signature, header, pathSecrets }) {
    if (signature === undefined && header === undefined && pathSecrets === undefined) {
      yield {
        path: ["signature"],
        message: "is missing: a source needs signature, header or pathSecrets",
      };
    }
  },
);

const automationSourceSchema = withRule(
  z.strictObject({
    account: accountOfEvents,
    kind: z.literal("automation-request").describe(kindNames),
    mode: z
      .enum(["ack", "proxy"])
      .default("ack")
      .describe(
        "ack: the relay stores it, answers 200 at once and delivers it later. proxy: it forwards it at once to the destination under to, and returns the answer.",
      ),
    dedupe: durationSchema
      .refine((ms) => ms <= 86_400_000, "must be at most 1d")
      .prefault("5m")
      .describe("How long identical signed bytes count as the same event, at most 1d. 0s: never."),
    signature: signed,
    to: urlDestinationSchema
      .extend({
        timeout: durationSchema
          .refine((ms) => ms >= 100 && ms <= 9500, "must be from 100ms to 9500ms")
          .prefault("9s")
          .describe("Longest time of one exchange. It leaves room within the service's 10 s."),
      })
      .optional()
      .describe(
        "Required with mode: proxy, and only there. As to of a route with a url, but timeout is 100ms to 9500ms and 9s by default.",
      ),
  }),
  function* ({ mode, to }) {
    if (mode === "proxy" && to === undefined)
      yield {
        path: ["to"],
        message: "is missing: mode proxy needs it to know where the request goes",
      };
    if (mode === "ack" && to !== undefined)
      yield { path: ["to"], message: "is for mode proxy; with mode ack, events go to the routes" };
    if (to !== undefined) yield* destinationFaults(to);
  },
);

const sourceSchema = z.preprocess(
  (value) => {
    if (typeof value !== "object" || value === null) return value;
    const named = "kind" in value ? value : { kind: "events", ...value };
    return named.kind === "events" && !("format" in named)
      ? { format: "standard", ...named }
      : named;
  },
  z.discriminatedUnion("kind", [
    z.discriminatedUnion("format", [standardSourceSchema, metaSourceSchema]),
    automationSourceSchema,
  ]),
);

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
