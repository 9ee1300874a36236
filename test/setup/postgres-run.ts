import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type { TestProject } from "vitest/node";
import { type Postgres, type PostgresVersion, startPostgres } from "./postgres.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Loopback port on which the run's shared servers are asked for. */
    readonly postgres: number;
  }
}

/**
 * The run's PostgreSQL, one per version, for `createDatabase`. It starts when the first test needs
 * it: most runs of one file do not.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const started = new Map<PostgresVersion, Promise<Postgres>>();
  const start = (version: PostgresVersion) => {
    const server = started.get(version) ?? startPostgres({ version });
    started.set(version, server);
    return server;
  };
  const listener = createServer((socket) => {
    socket.setEncoding("utf8").once("data", (version) => {
      start(Number(version) as PostgresVersion).then(
        ({ url }) => socket.end(JSON.stringify({ url })),
        (error: Error) => socket.end(JSON.stringify({ error: error.message })),
      );
    });
    socket.on("error", () => {});
  });
  await once(listener.listen(0, "127.0.0.1"), "listening");
  project.provide("postgres", (listener.address() as AddressInfo).port);
  return async () => {
    listener.close();
    for (const server of await Promise.allSettled(started.values()))
      if (server.status === "fulfilled") await server.value.stop();
  };
}
