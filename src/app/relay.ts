import { randomInt } from "node:crypto";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Settings } from "../config/schema.ts";
import type { ReloadView } from "../model/answers/relay.ts";
import { startDelivering } from "./deliver.ts";
import { checkRole, createCleanup, type RelayOptions } from "./engine.ts";
import { observe } from "./observe.ts";
import { serve } from "./serve.ts";
import { startService } from "./service.ts";
import { startStore } from "./store.ts";

export interface Relay {
  /**
   * Every page except the webhooks, also where `server.control` has them. `inject` calls it without
   * a socket.
   */
  readonly http: FastifyInstance;
  readonly server: Server;
  listen(): Promise<AddressInfo>;
  /** Applies these settings, or those of `reread`; or reports why not. */
  reload(settings?: Settings): Promise<ReloadView>;
  /**
   * Stops accepting, lets what is in flight finish within `server.shutdownTimeout`, closes the
   * store.
   */
  close(): Promise<void>;
  /** Logs an uncaught error; resolves once the line is written. The process must end then. */
  crash(error: unknown): Promise<void>;
}

/**
 * The composition root: creates and connects the parts, in five phases. Nothing listens until
 * `listen`. Throws `StoreRefused` when the store cannot be opened. A phase that fails closes what
 * the earlier ones opened.
 */
export async function createRelay(options: RelayOptions): Promise<Relay> {
  const {
    settings,
    log: stream,
    file = null,
    random = systemRandom,
    role = "both",
    dispatch = true,
    calls = dispatch,
  } = options;
  checkRole(role, settings.storage);
  const cleanup = createCleanup();
  const run = {
    ...options,
    file,
    random,
    role,
    dispatch,
    calls,
    works: dispatch && role !== "receive",
    cleanup,
  };

  async function start() {
    const stored = await startStore(await observe(run));
    const service = startService(stored);
    return {
      ...serve({ ...stored, ...(await startDelivering(stored)), service }),
      log: stored.log,
    };
  }

  const { http, server, listen, reload, drain, log } = await start().catch(
    async (error: unknown) => {
      // The first error is the one to report.
      await cleanup.run().catch(() => {});
      throw error;
    },
  );
  const ending = createCleanup();
  ending.defer(() => stream.end());
  ending.defer(() => log.info("stopped"));
  ending.defer(cleanup.run);

  return {
    http,
    server,
    listen,
    reload,
    async close() {
      log.info("stopping");
      await drain();
      await ending.run();
    },
    crash(error) {
      log.fatal({ err: error }, "a fault of the relay ends this process");
      return stream.end();
    },
  };
}

const systemRandom = (): number => randomInt(2 ** 32) / 2 ** 32;
