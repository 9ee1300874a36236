import type { DestinationSettings, UrlDestinationSettings } from "../deliver/settings.ts";
import { readRedisUrl } from "../event/redis-url.ts";
import { pathText } from "./fault.ts";
import { isLoopbackHost, isPrivateHost } from "./private-address.ts";
import type { AccountSettings, Settings } from "./schema.ts";

/** Something allowed that is probably not meant. */
export interface Warning {
  readonly path: string;
  readonly message: string;
}

/** What a person should look at, in settings that are valid. Quotes no values. */
export function warnings(settings: Settings): Warning[] {
  const found: Warning[] = [];
  const warn: Warn = (path, message) => void found.push({ path: pathText(path), message });
  const sources = Object.entries(settings.sources);
  if (sources.length === 0) warn(["sources"], "there are none: every event is answered 404");
  const needsRoutes = sources.some(([, source]) => source.kind === "events" || source.mode === "ack");
  if (settings.routes.length === 0 && needsRoutes) warn(["routes"], "there are none: events are stored and go nowhere");
  if (settings.control.tokens.length === 0) warn(["control", "tokens"], "there are none: the control API lets nobody in");
  for (const [name, account] of Object.entries(settings.accounts)) {
    if (!sources.some(([, source]) => source.account === name)) warn(["accounts", name], "no source belongs to it");
    warnAboutService(account, ["accounts", name], warn);
  }
  for (const kept of ["events", "ignored"] as const) {
    if (settings.tracking.parkFor > settings.retention[kept]) {
      warn(["tracking", "parkFor"], `is longer than retention.${kept}: what is parked may be deleted before its time is up`);
    }
  }
  const isAsked = Object.values(settings.accounts).some(({ baseUrl, apiKey }) => baseUrl !== undefined && apiKey !== undefined);
  if (isAsked && settings.hydrate.giveUpAfter > settings.retention.events) {
    warn(
      ["hydrate", "giveUpAfter"],
      "is longer than retention.events: a truncated event may be deleted before it is known what it was about",
    );
  }
  if (settings.log.pii === "clear") warn(["log", "pii"], "logs will show people's phone numbers");
  for (const [index, route] of settings.routes.entries()) {
    const path = ["routes", index, "to"];
    if ("url" in route.to) warnAboutUrl(route.to, path, warn);
    else warnAboutRedis(route.to, path, warn);
  }
  return found;
}

function warnAboutUrl(to: UrlDestinationSettings, path: readonly (string | number)[], warn: Warn): void {
  if (isPrivateHost(to.url)) return;
  if (to.url.startsWith("http:")) warn([...path, "url"], "is http: people's data goes over the network unencrypted");
  if (to.secret === undefined && !to.passSignature && Object.keys(to.headers).length === 0) {
    warn(path, "has no secret, passSignature or headers: the destination cannot tell the relay from anybody else");
  }
}

function warnAboutRedis(to: Exclude<DestinationSettings, UrlDestinationSettings>, path: readonly (string | number)[], warn: Warn): void {
  if ("stream" in to && to.maxLength === undefined) {
    warn([...path, "stream"], "has no maxLength beside it: it grows until Redis is full, unless somebody else trims it");
  }
  const place = readRedisUrl(to.redis.reveal());
  const host = place?.hosts[0]?.host ?? "";
  // A name of one part, such as that of a container, is one of the own network.
  const isFar = host.includes(".") || host.includes(":");
  if (place?.tls === false && isFar && !isPrivateHost(`http://${host.includes(":") ? `[${host}]` : host}/`)) {
    warn([...path, "redis"], "is redis: people's data goes over the network unencrypted (rediss: is with TLS)");
  }
}

type Warn = (path: readonly (string | number)[], message: string) => void;

/** What keeps the service from being asked, or the key from staying secret. */
function warnAboutService({ baseUrl, apiKey }: AccountSettings, path: readonly string[], warn: Warn): void {
  if (baseUrl === undefined) {
    if (apiKey !== undefined) warn([...path, "apiKey"], "is of no use without baseUrl beside it: the service is never asked");
    return;
  }
  if (apiKey === undefined) warn([...path, "baseUrl"], "is of no use without apiKey beside it: the service is never asked");
  if (baseUrl.startsWith("http:") && !isLoopbackHost(baseUrl)) {
    warn([...path, "baseUrl"], "is http: the API key and people's data go over the network unencrypted");
  }
  if (/\/api\/v1\/*$/.test(baseUrl)) warn([...path, "baseUrl"], "ends with /api/v1, which the relay adds to it by itself");
}
