import type { Socket } from "node:net";
import type { Settings } from "../../config/schema.ts";
import { createConnector } from "../../deliver/destinations/connections.ts";
import type { RedisSettings } from "../../store/settings.ts";
import { type Finding, fail, ok } from "./finding.ts";

/** Timeout per destination. All are checked at once. */
const withinMs = 3_000;

export interface Skew {
  readonly name: string;
  readonly skewMs: number;
}

/** Whether each destination accepts connections, and how far its clock differs. */
export async function checkDestinations(settings: Settings): Promise<{ readonly findings: Finding[]; readonly skews: Skew[] }> {
  const destinations = [
    ...settings.routes.flatMap(({ name, to }) => ("url" in to ? [{ name, to }] : [])),
    ...Object.entries(settings.sources).flatMap(([name, source]) =>
      source.kind === "automation-request" && source.to !== undefined ? [{ name: `proxy:${name}`, to: source.to }] : [],
    ),
  ];
  // Routes may share a server, which is checked once.
  const probes = new Map<string, Promise<Probe>>();
  const shared = Promise.all(settings.routes.flatMap(({ name, to }) => ("redis" in to ? [checkRedis(name, to.redis)] : [])));
  const probed = await Promise.all(
    destinations.map(async ({ name, to }) => {
      const { origin } = new URL(to.url);
      const key = `${origin} ${to.allowPrivate}`;
      const probe = probes.get(key) ?? probeDestination(to.url, to.allowPrivate, withinMs);
      probes.set(key, probe);
      return { name, origin, probe: await probe };
    }),
  );
  return {
    findings: [...probed.map(judgeProbe), ...(await shared).flat()],
    skews: probed.flatMap(({ name, probe }) => (probe.reached && probe.skewMs !== null ? [{ name, skewMs: probe.skewMs }] : [])),
  };
}

/** Loaded here: most settings have no Redis. */
async function checkRedis(name: string, url: RedisSettings["url"]): Promise<Finding[]> {
  const { checkRedisDestination } = await import("./redis.ts");
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

type Probe =
  /** `skewMs`: how far its clock is ahead of ours; null: unknown. */
  { readonly reached: true; readonly tookMs: number; readonly skewMs: number | null } | { readonly reached: false; readonly error: string };

/**
 * Connects as a delivery would (name, guard against private addresses, TCP, TLS) and requests the headers
 * of `/`: no event is sent, and the path of the destination, which may be a secret, is not either.
 */
export function probeDestination(url: string, allowPrivate: boolean, withinMs: number): Promise<Probe> {
  const target = new URL(url);
  const startedAt = performance.now();
  return new Promise((resolve) => {
    let socket: Socket | null = null;
    let connectedAfter: number | null = null;
    const end = (probe: Probe): void => {
      clearTimeout(timer);
      resolve(probe);
      socket?.destroy();
    };
    const reached = (skewMs: number | null): void => end({ reached: true, tookMs: Math.round(connectedAfter ?? 0), skewMs });
    const timer = setTimeout(() => {
      if (connectedAfter !== null) reached(null);
      else end({ reached: false, error: `no connection within ${withinMs / 1000} s` });
    }, withinMs);
    socket = createConnector(target, { allowPrivate })((error, connected) => {
      if (error !== null) {
        end({ reached: false, error: error.message });
        return;
      }
      connectedAfter = performance.now() - startedAt;
      readDate(connected, target.host, reached);
    });
  });
}

/** Gives how far the answer's Date is ahead of now, or null. */
function readDate(socket: Socket, host: string, done: (skewMs: number | null) => void): void {
  let head = "";
  socket.setEncoding("latin1");
  socket.on("data", (chunk) => {
    head += chunk;
    const date = /\r\ndate: *([^\r]+)\r\n/i.exec(head)?.[1];
    // The header has whole seconds: on average it is half a second old.
    if (date !== undefined) done(Number.isNaN(Date.parse(date)) ? null : Date.parse(date) + 500 - Date.now());
    else if (head.includes("\r\n\r\n") || head.length > 16_384) done(null);
  });
  socket.on("close", () => done(null));
  socket.write(`HEAD / HTTP/1.1\r\nhost: ${host}\r\nuser-agent: wamid-relay-doctor\r\nconnection: close\r\n\r\n`);
}
