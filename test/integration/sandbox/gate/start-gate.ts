import { request } from "node:http";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { createApiApp } from "../../../../src/sandbox/api/app.ts";
import { type ApiFaultSettings, apiFaultSchema } from "../../../../src/sandbox/faults.ts";
import { createRandom } from "../../../../src/sandbox/ids.ts";
import { anAccount } from "../../../unit/sandbox/limits/an-account.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The body as JSON; undefined when it is none. */
  readonly body: unknown;
}

export interface CallOptions {
  readonly method?: string;
  /** Null: none. */
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** The address to call from. */
  readonly from?: string;
}

/** The gate on a real socket, with the routes of a test behind it, and a clock that stands still. */
export async function startGate(routes: (api: FastifyInstance) => void, options: Parameters<typeof anAccount>[0] = {}) {
  const scene = anAccount(options);
  const failures: unknown[] = [];
  let faults: ApiFaultSettings[] = [];
  const app = createApiApp({
    now: scene.clock.now,
    limits: scene.limits,
    random: createRandom("gate"),
    faults: () => faults,
    failed: (error) => failures.push(error),
    routes,
  });
  app.get("/outside", () => ({ outside: true }));
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;

  /** Rejects with the socket's error when there is no answer. The path goes out as it is. */
  function call(path: string, { method = "GET", key = "k-1", headers = {}, body, from = "127.0.0.1" }: CallOptions = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const sent = request({
        port,
        host: "127.0.0.1",
        localAddress: from,
        method,
        path,
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
          ...headers,
        },
      });
      sent.on("error", reject);
      sent.on("response", async (response) => {
        const chunks: Buffer[] = [];
        try {
          for await (const chunk of response) chunks.push(chunk as Buffer);
        } catch (error) {
          reject(error);
          return;
        }
        const text = Buffer.concat(chunks).toString("utf8");
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, body: parsed(text) });
      });
      sent.end(body);
    });
  }
  return {
    ...scene,
    app,
    call,
    failures,
    setFaults(...set: Partial<ApiFaultSettings>[]) {
      faults = set.map((fault) => apiFaultSchema.parse(fault));
    },
    [Symbol.asyncDispose]: () => app.close(),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
