import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { readPath } from "../model/json.ts";
import { type SignatureVerdict, verifyAs } from "./signing.ts";

export type Failure =
  | { readonly status: number; readonly retryAfterSeconds?: number }
  | "hang"
  | "reset";

export interface DownstreamSettings {
  readonly port?: number;
  readonly keepBodies?: boolean;
  /** False: only counts and ids are kept, for long runs. */
  readonly keepArrivals?: boolean;
  /** Standard Webhooks secrets by path. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** Meta app secrets by path. */
  readonly appSecrets?: Readonly<Record<string, string>>;
}

export type Downstream = Awaited<ReturnType<typeof startDownstream>>;

const anyPath = "*";

/** A small receiver of deliveries, for tests and the demo. */
export async function startDownstream(settings: DownstreamSettings = {}) {
  const {
    port = 0,
    keepBodies = true,
    keepArrivals = true,
    secrets = {},
    appSecrets = {},
  } = settings;
  const log = createArrivalLog({ keepArrivals });
  const failures = new Map<string, Failure>();
  const hanging = new Set<ServerResponse>();
  let number = 0;

  const verdictOn = (
    path: string,
    headers: IncomingHttpHeaders,
    body: Buffer,
  ): Arrival["signature"] => {
    const [secret, appSecret] = [secrets[path], appSecrets[path]];
    if (secret !== undefined) return verifyAs("standard-webhooks", headers, body, secret);
    return appSecret === undefined ? "unchecked" : verifyAs("meta", headers, body, appSecret);
  };
  const take = (request: IncomingMessage, response: ServerResponse, body: Buffer): void => {
    const path = new URL(request.url ?? "/", "http://downstream").pathname;
    const failure = failures.get(path) ?? failures.get(anyPath);
    const deliveryId = String(request.headers["webhook-id"] ?? "");
    number += 1;
    log.note({
      number,
      path,
      deliveryId,
      attempt: log.begin(deliveryId),
      ...readSubject(body),
      answered: failure === undefined ? 200 : typeof failure === "object" ? failure.status : null,
      signature: verdictOn(path, request.headers, body),
      body: keepBodies ? body : null,
    });
    if (failure === undefined) response.writeHead(200, { "content-type": "text/plain" }).end("ok");
    else if (failure === "reset") request.socket.resetAndDestroy();
    else if (failure === "hang") {
      hanging.add(response);
      response.once("close", () => hanging.delete(response));
    } else {
      const wait =
        failure.retryAfterSeconds === undefined
          ? {}
          : { "retry-after": String(failure.retryAfterSeconds) };
      response
        .writeHead(failure.status, { "content-type": "text/plain", ...wait })
        .end("failing on request");
    }
  };
  const server = createServer((request, response) => {
    request.toArray().then(
      (chunks) => take(request, response, Buffer.concat(chunks)),
      () => response.destroy(),
    );
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrivals: log.all as readonly Arrival[],
    counts: log.counts,
    /** Fails so until `recover`, on all paths or one. */
    fail: (failure: Failure, path = anyPath) => void failures.set(path, failure),
    recover(): void {
      failures.clear();
      for (const response of hanging) response.destroy();
    },
    close(): Promise<void> {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      return closed;
    },
  };
}

function readSubject(body: Buffer): Pick<Arrival, "eventId" | "wamid"> {
  let event: unknown;
  try {
    event = JSON.parse(body.toString("utf8"));
  } catch {}
  const textAt = (path: string): string | null => {
    const value = readPath(event, path);
    return typeof value === "string" ? value : null;
  };
  return { eventId: textAt("id"), wamid: textAt("data.wamid") };
}

export interface Arrival {
  readonly number: number;
  readonly path: string;
  /** Empty when absent. */
  readonly deliveryId: string;
  readonly attempt: number;
  readonly eventId: string | null;
  readonly wamid: string | null;
  /** Null for a hang or a reset. */
  readonly answered: number | null;
  readonly signature: SignatureVerdict | "unchecked";
  readonly body: Buffer | null;
}

export type ArrivalCounts = ReturnType<typeof noCounts>;

/** Without `keepArrivals` only counts are kept, and an id and two numbers per delivery. */
export function createArrivalLog({ keepArrivals }: { keepArrivals: boolean }) {
  const all: Arrival[] = [];
  const attempts = new Map<string, number>();
  const taken = new Set<string>();
  const byPath = new Map<string, ArrivalCounts>();
  return {
    all,
    begin(deliveryId: string): number {
      const attempt = (attempts.get(deliveryId) ?? 0) + 1;
      attempts.set(deliveryId, attempt);
      return attempt;
    },
    note(arrival: Arrival): void {
      if (keepArrivals) all.push(arrival);
      const counts = byPath.get(arrival.path) ?? noCounts();
      byPath.set(arrival.path, counts);
      counts.arrivals += 1;
      if (arrival.deliveryId === "") counts.withoutId += 1;
      if (arrival.signature === "invalid" || arrival.signature === "absent")
        counts.badSignatures += 1;
      const before = taken.has(arrival.deliveryId);
      if (before) counts.duplicates += 1;
      if (arrival.answered === null || arrival.answered < 200 || arrival.answered > 299)
        counts.failed += 1;
      else if (!before) {
        taken.add(arrival.deliveryId);
        counts.taken += 1;
      }
    },
    counts(path?: string): ArrivalCounts {
      if (path !== undefined) return { ...(byPath.get(path) ?? noCounts()) };
      const sum = noCounts();
      for (const counts of byPath.values()) {
        for (const key of Object.keys(sum) as (keyof ArrivalCounts)[]) sum[key] += counts[key];
      }
      return sum;
    },
  };
}

/** `duplicates` are of a delivery that was answered 2xx before. */
function noCounts() {
  return { arrivals: 0, taken: 0, duplicates: 0, failed: 0, badSignatures: 0, withoutId: 0 };
}
