import { randomInt } from "node:crypto";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Settings } from "../config/schema.ts";
import type { ReloadView } from "../model/answers.ts";
import type { Clock } from "../model/clock.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { LogStream } from "../observe/logger.ts";
import { createCleanup } from "./cleanup.ts";
import { startDelivering } from "./deliver.ts";
import { checkRole, type Role } from "./engine.ts";
import { observe } from "./observe.ts";
import type { RereadSettings } from "./reload.ts";
import { serve } from "./serve.ts";
import { startService } from "./service.ts";
import { startStore } from "./store.ts";

export interface RelayOptions {
  readonly settings: Settings;
  readonly log: LogStream;
  /** Reads the settings file again; throws `SettingsError`. Without it, only `reload(settings)` changes the settings. */
  readonly reread?: () => MaybePromise<RereadSettings>;
  /** The path of the settings file, for people. */
  readonly file?: string | null;
  /** Default: the system's, or for a store that processes share, the store's. */
  readonly clock?: Clock;
  readonly random?: () => number;
  /** Default: `both`. */
  readonly role?: Role;
  /** False: nothing is sent; for a command that only writes to the store. */
  readonly dispatch?: boolean;
  /** Whether the messaging service is called. Default: `dispatch`. */
  readonly calls?: boolean;
}

export interface Relay {
  /** Every page except the webhooks, also where `server.control` has them. `inject` calls it without a socket. */
  readonly http: FastifyInstance;
  readonly server: Server;
  listen(): Promise<AddressInfo>;
  /** Applies these settings, or those of `reread`; or reports why not. */
  reload(settings?: Settings): Promise<ReloadView>;
  /** Stops accepting, lets what is in flight finish within `server.shutdownTimeout`, closes the store. */
  close(): Promise<void>;
  /** Logs an uncaught error; resolves once the line is written. The process must end then. */
  crash(error: unknown): Promise<void>;
}

/**
 * The composition root: creates and connects the parts, in five phases. Nothing listens until `listen`. Throws
 * `StoreRefused` when the store cannot be opened. A phase that fails closes what the earlier ones opened.
 */
export async function createRelay(options: RelayOptions): Promise<Relay> {
  const { settings, log: stream, reread, file = null, clock, random = systemRandom, role = "both", dispatch = true } = options;
  const { calls = dispatch } = options;
  checkRole(role, settings.storage);
  const works = dispatch && role !== "receive";
  const cleanup = createCleanup();

  async function start() {
    const observed = await observe({ settings, log: stream, dispatch }, cleanup);
    const stored = await startStore(observed, dispatch ? role : "command", clock, cleanup);
    const service = startService(observed, stored, { calls, works, random }, cleanup);
    const delivering = await startDelivering(observed, stored, { works, random }, cleanup);
    const serving = serve({ ...observed, ...stored, ...delivering, service }, { role, works, dispatch, file, reread, clock }, cleanup);
    return { ...serving, log: observed.log };
  }

  const { http, server, listen, reload, drain, log } = await start().catch(async (error: unknown) => {
    // The first error is the one to report.
    await cleanup.run().catch(() => {});
    throw error;
  });
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
