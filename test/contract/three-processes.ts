import { Redis as Client } from "ioredis";
import { onTestFinished } from "vitest";
import type { Rules } from "../../src/store/rules.ts";
import type { Redis } from "../setup/redis.ts";
import { type OpenedStore, openRedisStore } from "./redis-queue.ts";

let made = 0;

export interface Processes {
  readonly stores: readonly [OpenedStore, OpenedStore, OpenedStore];
  /** For a look at what stands in Redis. */
  readonly client: Client;
  readonly key: (name: string) => string;
  end(): void;
}

/** Three processes of one relay, each with a connection of its own, under a new prefix; ended with the test at the latest. */
export function openProcesses(redis: Pick<Redis, "url">, rules: Rules): Processes {
  made += 1;
  const prefix = `three-${process.pid}-${made}`;
  const clients: Client[] = [];
  function openOne(): OpenedStore {
    const client = new Client(redis.url);
    clients.push(client);
    return openRedisStore({ run: (command) => command(client) }, prefix, rules, { committed: () => {} });
  }
  const stores = [openOne(), openOne(), openOne()] as const;
  const end = () => {
    for (const client of clients) client.disconnect();
  };
  onTestFinished(end);
  return { stores, client: clients[0] as Client, key: (name) => `{${prefix}}:${name}`, end };
}
