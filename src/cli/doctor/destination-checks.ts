import type { Settings } from "../../config/schema.ts";
import type { RedisSettings } from "../../store/settings.ts";
import { type Finding, fail, ok } from "./finding.ts";
import { type Probe, probeDestination } from "./probe-destination.ts";

/** How long one destination may take. All are asked at once. */
const withinMs = 3_000;

export interface Skew {
  readonly name: string;
  readonly skewMs: number;
}

/** Whether each destination can be connected to, and what its clock says. */
export async function checkDestinations(settings: Settings): Promise<{ readonly findings: Finding[]; readonly skews: Skew[] }> {
  const destinations = [
    ...settings.routes.flatMap(({ name, to }) => ("url" in to ? [{ name, to }] : [])),
    ...Object.entries(settings.sources).flatMap(([name, source]) =>
      source.kind === "automation-request" && source.to !== undefined ? [{ name: `proxy:${name}`, to: source.to }] : [],
    ),
  ];
  // Many routes may go to one server, which needs asking once.
  const probes = new Map<string, Promise<Probe>>();
  const shared = Promise.all(settings.routes.flatMap(({ name, to }) => ("redis" in to ? [checkRedis(name, to.redis)] : [])));
  const asked = await Promise.all(
    destinations.map(async ({ name, to }) => {
      const { origin } = new URL(to.url);
      const key = `${origin} ${to.allowPrivate}`;
      const probe = probes.get(key) ?? probeDestination(to.url, to.allowPrivate, withinMs);
      probes.set(key, probe);
      return { name, origin, probe: await probe };
    }),
  );
  return {
    findings: [...asked.map(judgeProbe), ...(await shared).flat()],
    skews: asked.flatMap(({ name, probe }) => (probe.reached && probe.skewMs !== null ? [{ name, skewMs: probe.skewMs }] : [])),
  };
}

/** Loaded here: most settings have no Redis. */
async function checkRedis(name: string, url: RedisSettings["url"]): Promise<Finding[]> {
  const { checkRedisDestination } = await import("./redis/check.ts");
  return checkRedisDestination(name, url);
}

function judgeProbe({ name, origin, probe }: { readonly name: string; readonly origin: string; readonly probe: Probe }): Finding {
  if (probe.reached) return ok("destination", `${name}: ${origin} connected in ${probe.tookMs} ms`);
  return fail(
    "destination",
    `${name}: ${origin}: ${probe.error}`,
    "check the URL, the name, the network, and allowPrivate where it is your own",
  );
}
