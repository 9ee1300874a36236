import { isAscii, isUtf8 } from "node:buffer";
import { z } from "zod";
import { type AttemptError, keptResponseBytes, type UrlResult } from "../../model/delivery.ts";
import { asciiJson } from "../../model/json.ts";
import { headerName, headerValue, Secret, secretSchema } from "../../model/secret.ts";
import { durationSchema } from "../../model/units.ts";
import { relayVersion } from "../../model/version.ts";
import {
  ConnectionFailed,
  hasCredentials,
  isUnixSocket,
  unixSocketFault,
} from "../../net/addresses.ts";
import { type ConnectorOptions, createPool } from "../../net/connect.ts";
import { type Exchanged, exchange, retryAfterMs } from "../../net/exchange.ts";
import { tlsSchema } from "../../net/tls.ts";
import {
  type AttemptOutcome,
  abortedAttempt,
  commonSchema,
  createDeliveryHeaders,
  type Destination,
  failedAttempt,
  fixedHeaders,
  type OutgoingDelivery,
  reservedHeader,
  timeoutSchema,
} from "./destination.ts";

/** Values are secrets and never printed, because people put `authorization` here. */
const headersSchema = z.record(
  headerName.refine((name) => !reservedHeader.test(name), "is set by the relay itself"),
  headerValue,
);

export const urlDestinationSchema = commonSchema.extend({
  url: z
    .url({ protocol: /^https?$/, error: "is not an http or https URL" })
    .refine((text) => !isUnixSocket(text), unixSocketFault)
    .refine(
      (text) => !hasCredentials(text),
      "holds a user or password; put them into headers (authorization)",
    )
    .describe("Where deliveries are posted: an http or https URL without user and password."),
  headers: headersSchema
    .prefault({})
    .describe("Headers added to each request. Values are secrets and never printed."),
  timeout: timeoutSchema
    .prefault("15s")
    .describe(
      "Longest time of one attempt, 100ms to 5m, from connecting to the last byte of the answer.",
    ),
  maxRetryAfter: durationSchema
    .refine((ms) => ms <= 86_400_000, "must be at most 24h")
    .prefault("1h")
    .describe(
      "Longest Retry-After that the relay honors, at most 24h. A longer one counts as this. 0s: ignore all.",
    ),
  tls: tlsSchema.optional().describe("Authorities and client certificate, for https and rediss."),
  allowPrivate: z
    .boolean()
    .default(false)
    .describe("Allows loopback, private and other non-public addresses."),
});

const metaSignatureSchema = z.strictObject({
  preset: z
    .enum(["meta"])
    .describe("meta: X-Hub-Signature-256 over the body in ASCII, as Meta's Cloud API signs."),
  secret: secretSchema.describe("The secret that the destination has as the app secret."),
});

/**
 * With these texts, apps answer 200 to a webhook that they dropped. As in their sources on the
 * date.
 */
export const rejectionPresets = {
  n8n: { asOf: "2026-11-23", texts: ["Webhook call received"] },
  odoo: { asOf: "2026-11-23", texts: ['"error"'] },
  courier: { asOf: "2026-11-23", texts: ['"message":"Error"'] },
} as const;

type RejectionPreset = keyof typeof rejectionPresets;

const failIfBodySchema = z
  .strictObject({
    preset: z
      .enum(Object.keys(rejectionPresets) as [RejectionPreset, ...RejectionPreset[]])
      .optional()
      .describe("An app whose texts the relay knows."),
    contains: z
      .array(z.string().min(1).max(256))
      .min(1)
      .max(20)
      .optional()
      .describe("Texts, as they stand in the body."),
  })
  .refine(
    ({ preset, contains }) => preset !== undefined || contains !== undefined,
    "must have preset or contains",
  );

/** For apps that expect what Meta's Cloud API sends. */
export const routeUrlSchema = urlDestinationSchema.extend({
  signature: metaSignatureSchema
    .optional()
    .describe(
      "Instead of secret: signs as Meta's Cloud API does, for apps that take Meta's webhooks.",
    ),
  verifyToken: secretSchema
    .optional()
    .describe(
      "The app's verify token, for Meta's handshake: doctor, the console and POST /v1/routes/:route/handshake perform it.",
    ),
  failIfBody: failIfBodySchema
    .optional()
    .describe(
      "Counts a 2xx answer as failed if the first 4 KiB of its body have one of these texts. For apps that answer 200 to what they drop.",
    ),
});
export type UrlDestinationSettings = z.infer<typeof routeUrlSchema>;

export type UrlOutcome = AttemptOutcome<UrlResult>;
export type UrlDestination = Destination<UrlResult>;

interface UrlRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** Name, value, name, value. */
  readonly headers: string[];
  readonly body?: Buffer;
}

/** `clock` gives unix ms. `connector` is for tests. */
function openUrl(
  to: UrlDestinationSettings,
  clock: () => number,
  keep: number,
  connector?: ConnectorOptions,
) {
  const { concurrency, timeout, maxRetryAfter, allowPrivate, tls } = to;
  const options = {
    connections: concurrency,
    connectWithin: timeout,
    allowPrivate,
    tls,
    ...connector,
  };
  const pool = createPool(new URL(to.url), options);
  let isClosed = false;

  return {
    /** Never rejects. */
    async request(request: UrlRequest, maySend?: () => boolean): Promise<UrlOutcome> {
      if (isClosed) return abortedAttempt();
      const startedAt = performance.now();
      const limits = {
        timeoutMs: timeout,
        maxBytes: keep,
        resends,
        ...(maySend === undefined ? {} : { maySend }),
      };
      const exchanged = await exchange(pool, request, limits);
      const tookMs = Math.round(performance.now() - startedAt);
      if (exchanged.kind === "answered") return answered(exchanged, tookMs, clock(), maxRetryAfter);
      if (exchanged.kind === "timeout")
        return failedAttempt("timeout", timeoutText(exchanged, timeout), tookMs);
      if (exchanged.kind === "aborted" || isClosed) return abortedAttempt(tookMs);
      const { error, text } = failureOf(exchanged.error);
      return failedAttempt(error, text, tookMs);
    },
    retire: () => pool.close(),
    close(): Promise<void> {
      isClosed = true;
      return pool.destroy(new Error("closed"));
    },
  };
}

export function createUrlDestination(
  settings: UrlDestinationSettings,
  clock: () => number,
  keep = keptResponseBytes,
  connector?: ConnectorOptions,
): UrlDestination {
  const { pathname, search } = new URL(settings.url);
  const headersOf = createDeliveryHeaders(settings, relayVersion());
  const { request, retire, close } = openUrl(settings, clock, keep, connector);
  const rejection = settings.failIfBody === undefined ? null : createRejection(settings.failIfBody);

  return {
    async send(delivery, maySend) {
      const { body, ...sent } = settings.signature === undefined ? delivery : asMetaSends(delivery);
      const headers = headersOf({ ...sent, body }, clock());
      const outcome = await request(
        { method: "POST", path: `${pathname}${search}`, headers, body },
        maySend,
      );
      return rejection === null ? outcome : rejection(outcome);
    },
    retire,
    close,
  };
}

type Answered = Extract<Exchanged, { kind: "answered" }>;

function answered(
  { status, headers, body }: Answered,
  tookMs: number,
  now: number,
  longestRetryAfter: number,
): UrlOutcome {
  return {
    result: {
      kind: "answered",
      status,
      retryAfterMs: retryAfterMs(headers["retry-after"], now, longestRetryAfter),
    },
    tookMs,
    response: body.length === 0 ? null : body,
    responseType: firstOf(headers["content-type"]),
    responseEncoding: firstOf(headers["content-encoding"]),
  };
}

function firstOf(header: string | string[] | undefined): string | null {
  return (typeof header === "string" ? header : header?.[0])?.slice(0, 256) ?? null;
}

function timeoutText(
  { step, status }: Extract<Exchanged, { kind: "timeout" }>,
  timeout: number,
): string {
  const until = `within ${timeout} ms`;
  const texts = {
    waiting: `no free connection ${until}`,
    connecting: `no connection ${until}`,
    sent: `no answer ${until}`,
    answering: `answered ${status}, but the answer did not end ${until}`,
  };
  return texts[step];
}

const protocolCodes = new Set([
  "UND_ERR_HEADERS_OVERFLOW",
  "UND_ERR_INVALID_ARG",
  "UND_ERR_NOT_SUPPORTED",
  // Such as two lengths, or a length and chunks. A body that is cut has another code.
  "UND_ERR_RES_CONTENT_LENGTH_MISMATCH",
  // A status below 100.
  "ERR_ASSERTION",
]);
const protocolMessages = new Set(["bad response", "bad upgrade"]);

export function failureOf(error: Error): { readonly error: AttemptError; readonly text: string } {
  if (error instanceof ConnectionFailed) return { error: error.error, text: error.message };
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (code === "TOO_MANY_INTERIM_ANSWERS") return { error: "protocol", text: error.message };
  if (
    error.name === "HTTPParserError" ||
    protocolCodes.has(code) ||
    protocolMessages.has(error.message)
  ) {
    return {
      error: "protocol",
      text: `the answer is not valid HTTP/1.1: ${error.message.slice(0, 300)}`,
    };
  }
  // With TLS 1.3 a server refuses a missing client certificate only after the handshake.
  if (/^ERR_(SSL|TLS)/.test(code))
    return { error: "tls", text: `TLS failed (${code}): ${error.message.slice(0, 300)}` };
  return {
    error: "reset",
    text: `the connection was closed before the answer was complete (${code === "" ? error.message : code})`,
  };
}

const resends = (error: Error): boolean => failureOf(error).error === "reset";

/**
 * Consumers of Meta compare media types, and some escape the body before they verify its signature.
 */
function asMetaSends(delivery: OutgoingDelivery): OutgoingDelivery {
  return { ...delivery, body: asciiBody(delivery.body), contentType: "application/json" };
}

/** A body that is not JSON stays as it is. */
export function asciiBody(body: Buffer): Buffer {
  if (isAscii(body) || !isUtf8(body)) return body;
  const text = body.toString("utf8");
  try {
    JSON.parse(text);
  } catch {
    return body;
  }
  return Buffer.from(asciiJson(text), "latin1");
}

function createRejection({
  preset,
  contains = [],
}: z.infer<typeof failIfBodySchema>): (outcome: UrlOutcome) => UrlOutcome {
  const texts = [...(preset === undefined ? [] : rejectionPresets[preset].texts), ...contains];
  return (outcome) => {
    const { result, response } = outcome;
    if (
      response === null ||
      result.kind !== "answered" ||
      result.status < 200 ||
      result.status >= 300
    )
      return outcome;
    return texts.some((text) => response.includes(text))
      ? { ...outcome, result: { kind: "failed", error: "rejected" } }
      : outcome;
  };
}

/** The person who asked for it waits. */
const longestMs = 15_000;
/** A right answer has the length of the challenge. */
const keep = 64;

export type App = UrlDestinationSettings & { readonly verifyToken: Secret };

/** Another URL or token needs a handshake of its own. */
export function fingerprintOf({ url, verifyToken }: App): string {
  return new Secret(`${url}\0${verifyToken.reveal()}`).fingerprint();
}

/**
 * Returns what is wrong, without quoting the body, which may hold secrets; null: the app knows the
 * token.
 */
export async function shakeHands(
  to: UrlDestinationSettings,
  verifyToken: string,
  challenge: string,
): Promise<string | null> {
  const app = openUrl(
    { ...to, concurrency: 1, timeout: Math.min(to.timeout, longestMs) },
    Date.now,
    keep,
  );
  const path = handshakePath(new URL(to.url), verifyToken, challenge);
  try {
    const outcome = await app.request({
      method: "GET",
      path,
      headers: [...fixedHeaders(to, relayVersion())].flat(),
    });
    return problemOf(outcome, challenge);
  } finally {
    await app.close();
  }
}

/** The URL's own query comes first, as it is written. */
function handshakePath({ pathname, search }: URL, verifyToken: string, challenge: string): string {
  const own = search === "" ? "?" : `${search}&`;
  return `${pathname}${own}hub.mode=subscribe&hub.challenge=${challenge}&hub.verify_token=${encodeURIComponent(verifyToken)}`;
}

function problemOf(
  { result, response, responseType }: UrlOutcome,
  challenge: string,
): string | null {
  if (result.kind === "failed") return `no answer: ${response?.toString() ?? result.error}`;
  const { status } = result;
  const isChallenge = response?.toString("latin1") === challenge;
  if (status === 200 && isChallenge) return null;
  if (status === 200)
    return `it answered 200 with ${bodyText(response, responseType)} instead of the challenge`;
  if (isChallenge) return `it answered ${status} with the challenge, which Meta takes as a refusal`;
  if (status >= 300 && status < 400)
    return `it answered ${status}, a redirect, which neither Meta nor the relay follows`;
  return `it answered ${status} instead of 200`;
}

function bodyText(response: Buffer | null, type: string | null | undefined): string {
  if (response === null) return "no body";
  const [media] = /^[\w.+-]{1,64}\/[\w.+-]{1,64}/.exec(type ?? "") ?? [];
  return media === undefined ? "another body" : `another body (${media})`;
}
