import proxyAddr from "@fastify/proxy-addr";
import { z } from "zod";
import { destinationSchema, payloadSchema, urlDestinationSchema } from "../deliver/settings.ts";
import { hydrateSchema } from "../hydrate/settings.ts";
import { fieldsSchema } from "../model/event.ts";
import { secretSchema } from "../model/secret.ts";
import { signatureSettingsSchema } from "../model/signature.ts";
import { durationSchema, sizeSchema } from "../model/units.ts";
import { tracesSchema } from "../observe/settings.ts";
import { reconcileSchema, silenceSchema } from "../reconcile/settings.ts";
import { routingSchema, trackingSchema } from "../route/settings.ts";
import { sendSettingsSchema } from "../send/settings.ts";
import { apiKeySchema, baseUrlSchema, planSchema } from "../service/settings.ts";
import { backupSchema, storageSchema } from "../store/settings.ts";

const name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "is not a name (letters, digits, . _ -, at most 64)");

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
  host: z.string().min(1).default("0.0.0.0"),
  /** 0: any free port. A port from `${PORT}` becomes a number while loading (`coerceVariables` in load.ts). */
  port: z.number().int().min(0).max(65535).default(8080),
  /** Where the control API and the metrics listen, when not at `host` and `port`. */
  control: z.strictObject({ host: z.string().min(1).default("127.0.0.1"), port: z.number().int().min(1).max(65535) }).optional(),
  /** Proxies whose X-Forwarded-For is trusted: addresses, CIDR ranges, or `loopback`, `linklocal`, `uniquelocal`. */
  trustProxy: z
    .array(z.string().refine(isProxyRange, "is not an address, a range such as 10.0.0.0/8, loopback, linklocal or uniquelocal"))
    .default([]),
  bodyLimit: sizeSchema.refine((bytes) => bytes >= 1024 && bytes <= 64 * 1024 ** 2, "must be from 1KiB to 64MiB").prefault("1MiB"),
  /** A request must arrive completely within this time. */
  requestTimeout: durationSchema.refine((ms) => ms >= 1000, "must be at least 1s").prefault("10s"),
  /** Requests in flight at once; more are answered 503. */
  maxInFlight: z.number().int().min(1).default(4096),
  /** Bad signatures a minute from one address before it gets 429. */
  badSignatureLimit: z.number().int().min(1).default(20),
  /** On SIGTERM: how long deliveries in flight may take to finish before they are handed back. */
  shutdownTimeout: durationSchema.prefault("10s"),
});

export const scopes = ["read", "track", "send", "replay", "listen"] as const;
export type Scope = (typeof scopes)[number];

export const tokenSchema = z.strictObject({ name, token: secretSchema, scopes: z.array(z.enum(scopes)).min(1) });

const controlSchema = z.strictObject({
  tokens: z.array(tokenSchema).default([]),
  /** Bad or missing tokens a minute from one address before it gets 429. */
  badTokenLimit: z.number().int().min(1).max(1_000_000).default(20),
});

const accountSchema = z.strictObject({
  baseUrl: baseUrlSchema.optional(),
  apiKey: apiKeySchema.optional(),
  plan: planSchema.default("escala"),
  /** Share of the account's per-minute caps that the relay may use. */
  share: z.number().gt(0).max(1).default(0.5),
});

const sourceSignatureSchema = signatureSettingsSchema.safeExtend({
  /** Any of these may verify an event; several at once for rotation, the new one first. */
  secrets: z.array(secretSchema).min(1),
});

const eventsSourceSchema = z.strictObject({
  /** Default: the only account. */
  account: name.optional(),
  kind: z.literal("events").default("events"),
  signature: sourceSignatureSchema,
  /** Where in `data` the tracked fields are. */
  fields: fieldsSchema.prefault({}),
});

const automationSourceSchema = z.strictObject({
  account: name.optional(),
  kind: z.literal("automation-request"),
  /** `ack`: stored, answered 200 at once, delivered later; `proxy`: forwarded now, and the destination's answer passed back. */
  mode: z.enum(["ack", "proxy"]).default("ack"),
  /** How long identical signed bytes count as the same event; 0s: never. */
  dedupe: durationSchema.refine((ms) => ms <= 86_400_000, "must be at most 1d").prefault("5m"),
  signature: sourceSignatureSchema,
  /** With `mode: proxy`, where the request goes. Its timeout must leave room within the service's 10 s. */
  to: urlDestinationSchema
    .extend({ timeout: durationSchema.refine((ms) => ms >= 100 && ms <= 9500, "must be from 100ms to 9500ms").prefault("9s") })
    .optional(),
});

export const sourceSchema = z.preprocess(
  (value) => (typeof value === "object" && value !== null && !("kind" in value) ? { kind: "events", ...value } : value),
  z.discriminatedUnion("kind", [eventsSourceSchema, automationSourceSchema]),
);

export const routeSchema = routingSchema.extend({
  payload: payloadSchema.default("original"),
  to: destinationSchema,
});

const retentionSchema = z.strictObject({
  events: durationSchema.prefault("30d"),
  /** Events of unknown messages, and the status kept of messages that nobody registered. */
  ignored: durationSchema.prefault("1d"),
  deliveries: durationSchema.prefault("30d"),
  messages: durationSchema.prefault("180d"),
  /** Counts of `/v1/series` and `/v1/quality`. They need few bytes: minutes become hours after two days. */
  history: durationSchema.refine((ms) => ms >= 3 * 24 * 3_600_000, "must be at least 3d").prefault("400d"),
});

const fileSchema = z.strictObject({
  server: serverSchema.prefault({}),
  storage: storageSchema.prefault({}),
  backup: backupSchema.prefault({}),
  control: controlSchema.prefault({}),
  accounts: z.record(name, accountSchema).default({}),
  sources: z.record(name, sourceSchema).default({}),
  tracking: z.strictObject({ unknown: trackingSchema.default("park"), parkFor: durationSchema.prefault("60s") }).prefault({}),
  routes: z.array(routeSchema).default([]),
  send: sendSettingsSchema.prefault({}),
  hydrate: hydrateSchema.prefault({}),
  reconcile: reconcileSchema.prefault({}),
  silence: silenceSchema.prefault({}),
  retention: retentionSchema.prefault({}),
  log: z
    .strictObject({
      level: z.enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"]).default("info"),
      /** `auto`: `pretty` on a terminal, `json` everywhere else. */
      format: z.enum(["auto", "json", "pretty"]).default("auto"),
      pii: z.enum(["masked", "clear"]).default("masked"),
    })
    .prefault({}),
  traces: tracesSchema.prefault({}),
});

/** The only account; none when there are several. */
export function onlyAccount(accounts: readonly string[]): string | undefined {
  return accounts.length === 1 ? accounts[0] : undefined;
}

/**
 * The settings file, before references between its parts are checked (`check-references.ts`, which refuses a source whose
 * account stays unknown).
 */
export const settingsSchema = fileSchema.transform((file) => {
  const only = onlyAccount(Object.keys(file.accounts)) ?? "";
  const sources = Object.entries(file.sources).map(([key, source]) => [key, { ...source, account: source.account ?? only }] as const);
  return { ...file, sources: Object.fromEntries(sources) };
});

export type Settings = z.infer<typeof settingsSchema>;
export type SourceSettings = Settings["sources"][string];
export type RouteSettings = Settings["routes"][number];
export type AccountSettings = Settings["accounts"][string];
export type TokenSettings = Settings["control"]["tokens"][number];

/** For zod. Settings are read once or twice in a process: compiling code for that takes longer than it saves. */
export const readOnce = { jitless: true } as const;

/** A reload does not change these: a running process keeps them. */
export const restartParts = ["server", "storage", "log", "traces"] as const satisfies readonly (keyof Settings)[];
