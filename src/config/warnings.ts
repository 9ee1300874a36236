import {
  type DestinationSettings,
  signingSecrets,
  type UrlDestinationSettings,
} from "../deliver/settings.ts";
import { kindHint, statusHint } from "../model/nearest.ts";
import { placeholderPrefix, type Secret } from "../model/secret.ts";
import {
  decodeKey,
  presetAxes,
  resolveScheme,
  type SecretEncoding,
  signaturePresets,
} from "../model/signature.ts";
import { isLoopbackHost, isPrivateHost } from "../net/addresses.ts";
import { readRedisUrl } from "../net/redis.ts";
import type { Match } from "../route/settings.ts";
import { pathText } from "./fault.ts";
import type { AccountSettings, Settings, SourceSettings } from "./schema.ts";
import { accountsOf, inboundSecrets, metaOf } from "./sources.ts";

type Warn = (path: readonly (string | number)[], message: string) => void;

export interface Warning {
  readonly path: string;
  readonly message: string;
}

export function warnings(settings: Settings): Warning[] {
  const found: Warning[] = [];
  const warn: Warn = (path, message) => void found.push({ path: pathText(path), message });
  const sources = Object.entries(settings.sources);
  if (sources.length === 0) warn(["sources"], "there are none: every event is answered 404");
  const needsRoutes = sources.some(
    ([, source]) => source.kind === "events" || source.mode === "ack",
  );
  if (settings.routes.length === 0 && needsRoutes)
    warn(["routes"], "there are none: events are stored and go nowhere");
  if (settings.control.tokens.length === 0)
    warn(["control", "tokens"], "there are none: the control API refuses every request");
  for (const [name, { signature }] of sources)
    warnAboutServiceName(signature, ["sources", name, "signature"], warn);
  const withSource = new Set(sources.flatMap(([, source]) => accountsOf(source)));
  for (const [name, account] of Object.entries(settings.accounts)) {
    if (!withSource.has(name)) warn(["accounts", name], "no source belongs to it");
    warnAboutService(account, ["accounts", name], warn);
  }
  for (const kept of ["events", "ignored"] as const) {
    if (settings.tracking.parkFor > settings.retention[kept]) {
      warn(
        ["tracking", "parkFor"],
        `is longer than retention.${kept}: what is parked may be deleted before its time is up`,
      );
    }
  }
  const isCallable = Object.values(settings.accounts).some(
    ({ baseUrl, apiKey }) => baseUrl !== undefined && apiKey !== undefined,
  );
  if (isCallable && settings.hydrate.giveUpAfter > settings.retention.events) {
    warn(
      ["hydrate", "giveUpAfter"],
      "is longer than retention.events: a truncated event may be deleted before it is known what it was about",
    );
  }
  if (settings.log.pii === "clear") warn(["log", "pii"], "logs will show people's phone numbers");
  const hasMeta = sources.some(([, source]) => metaOf(source) !== null);
  for (const [index, route] of settings.routes.entries()) {
    // Meta's kinds are in no document of the service, and more follow.
    warnAboutWords(
      hasMeta ? { ...route.match, events: [] } : route.match,
      ["routes", index, "match"],
      warn,
    );
    if (route.shards > 1 && settings.storage.driver !== "postgres")
      warn(
        ["routes", index, "shards"],
        "has an effect with storage.driver postgres only: one process delivers the whole route",
      );
    const path = ["routes", index, "to"];
    if ("url" in route.to) warnAboutUrl(route.to, path, warn);
    else warnAboutRedis(route.to, path, warn);
  }
  warnAboutSecrets(settings, warn);
  return found;
}

/** `service: meta` reads as if it chose Meta's signature, and is only a part of a header's name. */
function warnAboutServiceName(
  signature: SourceSettings["signature"],
  path: readonly string[],
  warn: Warn,
): void {
  const { service, header } = signature ?? {};
  const preset = signaturePresets.find(
    (each) => each === service?.toLowerCase() && presetAxes[each].header !== undefined,
  );
  if (preset === undefined || header !== undefined) return;
  warn(
    [...path, "service"],
    `makes the header x-${preset}-signature; for signatures of ${preset}, write "preset: ${preset}" in its place`,
  );
}

/** The service may add statuses and kinds, so an unknown one is no fault. */
function warnAboutWords(
  { statuses = [], events }: Match,
  path: readonly (string | number)[],
  warn: Warn,
): void {
  for (const [index, word] of statuses.entries()) {
    const hint = statusHint(word);
    if (hint !== null)
      warn(
        [...path, "statuses", index],
        `is not a status that the service's document names (${hint})`,
      );
  }
  for (const [index, pattern] of events.entries()) {
    const hint = kindHint(pattern);
    if (hint !== null)
      warn(
        [...path, "events", index],
        `matches no event kind that the service's document names (${hint})`,
      );
  }
}

function warnAboutUrl(
  to: UrlDestinationSettings,
  path: readonly (string | number)[],
  warn: Warn,
): void {
  if (isPrivateHost(to.url)) return;
  if (to.url.startsWith("http:"))
    warn([...path, "url"], "is http: people's data goes over the network unencrypted");
  const isSigned = signingSecrets(to).length > 0 || to.signature !== undefined || to.passSignature;
  if (!isSigned && Object.keys(to.headers).length === 0) {
    warn(
      path,
      "has no secret, secrets, signature, passSignature or headers: the destination cannot verify that requests come from the relay",
    );
  }
}

function warnAboutRedis(
  to: Exclude<DestinationSettings, UrlDestinationSettings>,
  path: readonly (string | number)[],
  warn: Warn,
): void {
  if ("stream" in to && to.maxLength === undefined) {
    warn(
      [...path, "stream"],
      "has no maxLength beside it: it grows until Redis is full, unless something else trims it",
    );
  }
  const place = readRedisUrl(to.redis.reveal());
  const host = place?.host ?? "";
  // A name of one part, such as a container's, is in the local network.
  const isFar = host.includes(".") || host.includes(":");
  if (
    place?.tls === false &&
    isFar &&
    !isPrivateHost(`http://${host.includes(":") ? `[${host}]` : host}/`)
  ) {
    warn(
      [...path, "redis"],
      "is redis: people's data goes over the network unencrypted (rediss: is with TLS)",
    );
  }
}

function warnAboutService(
  { baseUrl, apiKey }: AccountSettings,
  path: readonly string[],
  warn: Warn,
): void {
  if (apiKey !== undefined && isPlaceholder(apiKey)) {
    warn([...path, "apiKey"], placeholderWarning);
    return;
  }
  if (baseUrl === undefined) {
    if (apiKey !== undefined)
      warn(
        [...path, "apiKey"],
        "has no effect without baseUrl beside it: the service is never called",
      );
    return;
  }
  if (apiKey === undefined)
    warn(
      [...path, "baseUrl"],
      "has no effect without apiKey beside it: the service is never called",
    );
  if (baseUrl.startsWith("http:") && !isLoopbackHost(baseUrl)) {
    warn(
      [...path, "baseUrl"],
      "is http: the API key and people's data go over the network unencrypted",
    );
  }
  if (/\/api\/v1\/*$/.test(baseUrl))
    warn([...path, "baseUrl"], "ends with /api/v1, which the relay adds to it by itself");
}

interface PlacedSecret {
  readonly path: readonly (string | number)[];
  readonly secret: Secret;
  readonly use: keyof typeof uses;
  /**
   * Places with the same owner may share a secret: sources of one account, routes to one server.
   */
  readonly owner: string;
  /** Default: utf8. */
  readonly encoding?: SecretEncoding;
}

/**
 * Fewest bytes: 16 are 128 bits, less than which can be guessed offline from one captured request;
 * Standard Webhooks asks for 24.
 */
const uses = {
  incoming: { least: 16, goodOne: '"openssl rand -hex 32" makes a good one' },
  /** Signs as Meta does. */
  app: {
    least: 16,
    goodOne: '"openssl rand -hex 16" makes a good one, if the destination lets you choose it',
  },
  token: { least: 16, goodOne: '"openssl rand -hex 32" makes a good one' },
  outgoing: { least: 24, goodOne: 'echo "whsec_$(openssl rand -base64 32)" makes a good one' },
} as const;

function warnAboutSecrets(settings: Settings, warn: Warn): void {
  const places = [...placesOf(settings)];
  const alike = Map.groupBy(places, ({ secret }) => secret.reveal());
  for (const place of places) {
    const message =
      weaknessOf(place) ?? repetitionOf(place, alike.get(place.secret.reveal()) ?? []);
    if (message !== null) warn(place.path, message);
  }
}

function* placesOf({ control, sources, routes }: Settings): Generator<PlacedSecret> {
  for (const [index, { token }] of control.tokens.entries()) {
    const path = ["control", "tokens", index, "token"];
    yield { path, secret: token, use: "token", owner: pathText(path) };
  }
  for (const { source: name, path, secret } of inboundSecrets({ sources })) {
    const { account, signature } = sources[name] as SourceSettings;
    const isSigning = path[2] === "signature" && signature !== undefined;
    yield {
      path,
      secret,
      use: "incoming",
      owner: account,
      ...(isSigning && { encoding: resolveScheme(signature).secretEncoding }),
    };
  }
  for (const [name, source] of Object.entries(sources)) {
    if (source.kind === "automation-request" && source.to !== undefined)
      yield* outgoing(source.to, ["sources", name, "to"]);
  }
  for (const [index, { to }] of routes.entries()) {
    const path = ["routes", index, "to"];
    yield* outgoing(to, path);
    if (!("url" in to) || to.signature === undefined) continue;
    yield {
      path: [...path, "signature", "secret"],
      secret: to.signature.secret,
      use: "app",
      owner: new URL(to.url).origin,
    };
  }
}

function* outgoing(
  to: DestinationSettings,
  path: readonly (string | number)[],
): Generator<PlacedSecret> {
  const owner = "url" in to ? new URL(to.url).origin : to.redis.fingerprint();
  for (const [index, secret] of signingSecrets(to).entries()) {
    const place = to.secret === undefined ? ["secrets", index] : ["secret"];
    yield {
      path: [...path, ...place],
      secret,
      use: "outgoing",
      owner,
      encoding: isStandard(secret) ? "whsec" : "utf8",
    };
  }
}

const isStandard = (secret: Secret): boolean => secret.reveal().startsWith("whsec_");

function weaknessOf({ secret, use, encoding = "utf8" }: PlacedSecret): string | null {
  const text = secret.reveal();
  const { least, goodOne } = uses[use];
  if (isPlaceholder(secret)) return placeholderWarning;
  if (/^(?:\$\w+|\{\{.*\}\})$/.test(text))
    return "is a variable that nothing filled in: write ${NAME}, with braces";
  if (isExample(text)) return `is an example, which others know; ${goodOne}`;
  const faults = [
    ...(decodeKey(text, encoding).length < least
      ? [`is shorter than ${least} bytes, and may be guessed`]
      : []),
    ...(use === "outgoing" && !isStandard(secret)
      ? ["does not begin with whsec_: Standard Webhooks libraries cannot verify the signature"]
      : []),
  ];
  return faults.length === 0 ? null : `${faults.join("; it ")}; ${goodOne}`;
}

function repetitionOf(place: PlacedSecret, alike: readonly PlacedSecret[]): string | null {
  const earlier = alike.slice(0, alike.indexOf(place));
  const same = earlier.find(
    ({ use, owner }) => !(use === place.use && (owner === place.owner || use === "token")),
  );
  return same === undefined
    ? null
    : `is the same secret as ${pathText(same.path)}: one leak opens both`;
}

/** Long words only: short ones occur in random base64. */
const exampleWords =
  /change[-_ ]?me|replace[-_ ]?(?:me|this)|example|placeholder|your[-_ ](?:\w+[-_ ])?(?:secret|token|key)|^<.*>$|^(?:…|\.\.\.)$/i;
const exampleTexts = new Set([
  // The examples of Standard Webhooks and of Svix.
  "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  "C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
  "secret",
  "password",
  "token",
  "test",
]);

const placeholderWarning =
  'is the placeholder that "wamid-relay init" wrote: put the real secret in its place';

function isPlaceholder(secret: Secret): boolean {
  return secret.reveal().startsWith(placeholderPrefix);
}

function isExample(text: string): boolean {
  const bare = text.replace(/^whsec_/, "");
  return exampleWords.test(bare) || exampleTexts.has(bare) || isMonotonous(bare);
}

/** `xxxxxxxx`, or a count such as `0123456789abcdef` repeated. */
function isMonotonous(text: string): boolean {
  return new Set(text).size <= 2 || "0123456789abcdef".repeat(8).startsWith(text.toLowerCase());
}
