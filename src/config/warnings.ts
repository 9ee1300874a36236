import type { RetrySettings } from "../deliver/settings.ts";
import { pathText } from "./fault.ts";
import { durationText } from "./human-units.ts";
import { isPrivateHost } from "./private-address.ts";
import type { RouteSettings, Settings } from "./schema.ts";

/** Something allowed that is probably not meant. */
export interface Warning {
  readonly path: string;
  readonly message: string;
}

/** What a person should look at, in settings that are valid. Quotes no values. */
export function warnings(settings: Settings): Warning[] {
  const found: Warning[] = [];
  const warn = (path: readonly (string | number)[], message: string) => void found.push({ path: pathText(path), message });
  const sources = Object.entries(settings.sources);
  if (sources.length === 0) warn(["sources"], "there are none: every event is answered 404");
  const needsRoutes = sources.some(([, source]) => source.kind === "events" || source.mode === "ack");
  if (settings.routes.length === 0 && needsRoutes) warn(["routes"], "there are none: events are stored and go nowhere");
  if (settings.control.tokens.length === 0) warn(["control", "tokens"], "there are none: the control API lets nobody in");
  for (const name of Object.keys(settings.accounts)) {
    if (!sources.some(([, source]) => source.account === name)) warn(["accounts", name], "no source belongs to it");
  }
  if (settings.log.pii === "clear") warn(["log", "pii"], "logs will show people's phone numbers");
  for (const [index, route] of settings.routes.entries()) {
    const path = ["routes", index, "to"];
    warnAboutRetention(settings, route, (message) => warn([...path, "retry", "schedule"], message));
    if (route.to.url.startsWith("http:") && !isPrivateHost(route.to.url)) {
      warn([...path, "url"], "is http: people's data goes over the network unencrypted");
    }
    const proves = route.to.secret !== undefined || route.to.passSignature || Object.keys(route.to.headers).length > 0;
    if (!proves && !isPrivateHost(route.to.url)) {
      warn(path, "has no secret, passSignature or headers: the destination cannot tell the relay from anybody else");
    }
  }
  return found;
}

/** How long a delivery may wait before it is dead, in milliseconds: every wait at its longest. */
function longestLife(retry: RetrySettings): number {
  return retry.schedule.reduce((sum, wait) => sum + wait, 0) * (1 + retry.jitter);
}

function warnAboutRetention({ retention }: Settings, { to }: RouteSettings, warn: (message: string) => void): void {
  const life = Math.ceil(longestLife(to.retry));
  for (const kept of ["events", "deliveries"] as const) {
    if (retention[kept] >= life) continue;
    const hours = durationText(Math.ceil(life / 3_600_000) * 3_600_000);
    warn(`may go on for ${hours}, but retention.${kept} is ${durationText(retention[kept])}: what is not delivered by then is lost`);
  }
}
