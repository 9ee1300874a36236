import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { verifyAsMeta } from "../meta/callbacks.ts";
import { verifyStandardWebhook } from "../signing.ts";
import { type Arrival, type ArrivalCounts, createArrivalLog } from "./arrivals.ts";

/** How a downstream fails: an answer, no answer at all, or a connection cut. */
export type Failure = { readonly status: number; readonly retryAfterSeconds?: number } | "hang" | "reset";

export interface DownstreamSettings {
  /** Loopback port; 0 or not given: a free one. */
  readonly port?: number;
  /** False: arrivals are kept without their bodies. */
  readonly keepBodies?: boolean;
  /** False: only counts are kept, and the ids of deliveries (some 150 bytes each), for long runs. */
  readonly keepArrivals?: boolean;
  /** Standard Webhooks secrets by path: deliveries there are checked. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** The same with app secrets: deliveries there are signed as by Meta. */
  readonly appSecrets?: Readonly<Record<string, string>>;
}

export interface Downstream {
  /** `http://127.0.0.1:<port>`, without a path; any path is taken. */
  readonly url: string;
  /** In the order in which they arrived whole; empty with `keepArrivals: false`. */
  readonly arrivals: readonly Arrival[];
  counts(path?: string): ArrivalCounts;
  /** From now on fails so, on all paths or one, until `recover`. */
  fail(failure: Failure, path?: string): void;
  /** Takes deliveries again; connections that hang are cut. */
  recover(): void;
  close(): Promise<void>;
}

const anyPath = "*";

/** A small receiver of deliveries, for tests and the demo: keeps what came, and fails on request. */
export async function startDownstream(settings: DownstreamSettings = {}): Promise<Downstream> {
  const { port = 0, keepBodies = true, keepArrivals = true, secrets = {}, appSecrets = {} } = settings;
  const log = createArrivalLog({ keepArrivals });
  const failures = new Map<string, Failure>();
  const hanging = new Set<ServerResponse>();
  let number = 0;

  const verdictOn = (path: string, headers: IncomingHttpHeaders, body: Buffer): Arrival["signature"] => {
    const { [path]: secret } = secrets;
    const { [path]: appSecret } = appSecrets;
    if (secret !== undefined) return verifyStandardWebhook(headers, body, secret);
    return appSecret === undefined ? "unchecked" : verifyAsMeta(headers, body, appSecret);
  };
  const take = (request: IncomingMessage, response: ServerResponse, body: Buffer): void => {
    const path = new URL(request.url ?? "/", "http://downstream").pathname;
    const failure = failures.get(path) ?? failures.get(anyPath);
    const id = request.headers["webhook-id"];
    const deliveryId = typeof id === "string" ? id : "";
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
      const wait = failure.retryAfterSeconds === undefined ? {} : { "retry-after": String(failure.retryAfterSeconds) };
      response.writeHead(failure.status, { "content-type": "text/plain", ...wait }).end("failing on request");
    }
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => take(request, response, chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    request.on("error", () => response.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrivals: log.all,
    counts: log.counts,
    fail: (failure, path = anyPath) => void failures.set(path, failure),
    recover() {
      failures.clear();
      for (const response of hanging) response.destroy();
    },
    close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      return closed;
    },
  };
}

/** What the delivery is about. An enriched or original body both carry the event's `id`; other bodies are fine too. */
function readSubject(body: Buffer): Pick<Arrival, "eventId" | "wamid"> {
  try {
    const event = JSON.parse(body.toString("utf8")) as { id?: unknown; data?: { wamid?: unknown } | null } | null;
    const wamid = event?.data?.wamid;
    return { eventId: typeof event?.id === "string" ? event.id : null, wamid: typeof wamid === "string" ? wamid : null };
  } catch {
    return { eventId: null, wamid: null };
  }
}
