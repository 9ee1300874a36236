import { type DestinationSettings, signingSecrets, type UrlDestinationSettings } from "../deliver/settings.ts";
import { kindHint, statusHint } from "../model/known-words.ts";
import { readRedisUrl } from "../net/redis.ts";
import type { Match } from "../route/settings.ts";
import { pathText } from "./fault.ts";
import { isLoopbackHost, isPrivateHost } from "./private-address.ts";
import type { AccountSettings, Settings } from "./schema.ts";
import { isPlaceholder, placeholderWarning, type Warn, warnAboutSecrets } from "./secret-warnings.ts";
import { accountsOf } from "./sources.ts";

/** A valid setting that is probably a mistake. */
export interface Warning {
  readonly path: string;
  readonly message: string;
}

/** Probable mistakes in valid settings. Quotes no values. */
export function warnings(settings: Settings): Warning[] {
  const found: Warning[] = [];
  const warn: Warn = (path, message) => void found.push({ path: pathText(path), message });
  const sources = Object.entries(settings.sources);
  if (sources.length === 0) warn(["sources"], "there are none: every event is answered 404");
  const needsRoutes = sources.some(([, source]) => source.kind === "events" || source.mode === "ack");
  if (settings.routes.length === 0 && needsRoutes) warn(["routes"], "there are none: events are stored and go nowhere");
  if (settings.control.tokens.length === 0) warn(["control", "tokens"], "there are none: the control API refuses every request");
  for (const [name, account] of Object.entries(settings.accounts)) {
    if (!sources.some(([, source]) => accountsOf(source).includes(name))) warn(["accounts", name], "no source belongs to it");
    warnAboutService(account, ["accounts", name], warn);
  }
  for (const kept of ["events", "ignored"] as const) {
    if (settings.tracking.parkFor > settings.retention[kept]) {
      warn(["tracking", "parkFor"], `is longer than retention.${kept}: what is parked may be deleted before its time is up`);
    }
  }
  const isCallable = Object.values(settings.accounts).some(({ baseUrl, apiKey }) => baseUrl !== undefined && apiKey !== undefined);
  if (isCallable && settings.hydrate.giveUpAfter > settings.retention.events) {
    warn(
      ["hydrate", "giveUpAfter"],
      "is longer than retention.events: a truncated event may be deleted before it is known what it was about",
    );
  }
  if (settings.log.pii === "clear") warn(["log", "pii"], "logs will show people's phone numbers");
  for (const [index, route] of settings.routes.entries()) {
    warnAboutWords(route.match, ["routes", index, "match"], warn);
    if (route.shards > 1 && settings.storage.driver !== "postgres")
      warn(["routes", index, "shards"], "has an effect with storage.driver postgres only: one process delivers the whole route");
    const path = ["routes", index, "to"];
    if ("url" in route.to) warnAboutUrl(route.to, path, warn);
    else warnAboutRedis(route.to, path, warn);
  }
  warnAboutSecrets(settings, warn);
  return found;
}

/** The service may add statuses and kinds, so an unknown one is no fault. */
function warnAboutWords({ statuses = [], events }: Match, path: readonly (string | number)[], warn: Warn): void {
  for (const [index, word] of statuses.entries()) {
    const hint = statusHint(word);
    if (hint !== null) warn([...path, "statuses", index], `is not a status that the service's document names (${hint})`);
  }
  for (const [index, pattern] of events.entries()) {
    const hint = kindHint(pattern);
    if (hint !== null) warn([...path, "events", index], `matches no event kind that the service's document names (${hint})`);
  }
}

function warnAboutUrl(to: UrlDestinationSettings, path: readonly (string | number)[], warn: Warn): void {
  if (isPrivateHost(to.url)) return;
  if (to.url.startsWith("http:")) warn([...path, "url"], "is http: people's data goes over the network unencrypted");
  const isSigned = signingSecrets(to).length > 0 || to.signature !== undefined || to.passSignature;
  if (!isSigned && Object.keys(to.headers).length === 0) {
    warn(
      path,
      "has no secret, secrets, signature, passSignature or headers: the destination cannot verify that requests come from the relay",
    );
  }
}

function warnAboutRedis(to: Exclude<DestinationSettings, UrlDestinationSettings>, path: readonly (string | number)[], warn: Warn): void {
  if ("stream" in to && to.maxLength === undefined) {
    warn([...path, "stream"], "has no maxLength beside it: it grows until Redis is full, unless something else trims it");
  }
  const place = readRedisUrl(to.redis.reveal());
  const host = place?.host ?? "";
  // A name of one part, such as a container's, is in the local network.
  const isFar = host.includes(".") || host.includes(":");
  if (place?.tls === false && isFar && !isPrivateHost(`http://${host.includes(":") ? `[${host}]` : host}/`)) {
    warn([...path, "redis"], "is redis: people's data goes over the network unencrypted (rediss: is with TLS)");
  }
}

function warnAboutService({ baseUrl, apiKey }: AccountSettings, path: readonly string[], warn: Warn): void {
  if (apiKey !== undefined && isPlaceholder(apiKey)) {
    warn([...path, "apiKey"], placeholderWarning);
    return;
  }
  if (baseUrl === undefined) {
    if (apiKey !== undefined) warn([...path, "apiKey"], "has no effect without baseUrl beside it: the service is never called");
    return;
  }
  if (apiKey === undefined) warn([...path, "baseUrl"], "has no effect without apiKey beside it: the service is never called");
  if (baseUrl.startsWith("http:") && !isLoopbackHost(baseUrl)) {
    warn([...path, "baseUrl"], "is http: the API key and people's data go over the network unencrypted");
  }
  if (/\/api\/v1\/*$/.test(baseUrl)) warn([...path, "baseUrl"], "ends with /api/v1, which the relay adds to it by itself");
}
