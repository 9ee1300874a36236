import type { FastifyInstance } from "fastify";
import {
  type AccountsView,
  type HandshakeView,
  type InstanceView,
  type ListenerView,
  type ReloadView,
  type ReplayCountView,
  type ReplayStep,
  type reconciledSchema,
  type reconcilePlanSchema,
  reloadSchema,
  type retriedSchema,
  type SecretUseView,
  type SettingsView,
  type SourceCheckView,
  type SourceView,
} from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import type { readinessSchema } from "../model/probes.ts";
import type { OfAccounts, ReplayQuery } from "../model/queries.ts";
import { toAnswer, type View } from "../model/view.ts";
import { disconnectSignal, type Handlers } from "./endpoint.ts";
import { createScrape } from "./scrape.ts";

type Readiness = View<typeof readinessSchema>;

/** `/healthz` and `/readyz`: they need no token and hold nothing private. */
export function createProbeHandlers(
  { instance, version }: Pick<InstanceView, "instance" | "version">,
  health: () => Readiness,
): Pick<Handlers, "getHealth" | "getReadiness"> {
  return {
    getHealth: () => ({ status: "ok", instance, version }),
    getReadiness(_input, { reply }) {
      const report = health();
      reply.code(report.ready ? 200 : 503);
      return report;
    },
  };
}

/** Without a token, too. */
export function addMetricsRoute(app: FastifyInstance, metrics: { readonly contentType: string; text(): Promise<string> }): void {
  const scrape = createScrape(metrics.text);
  app.get("/metrics", async (_request, reply) => reply.header("content-type", metrics.contentType).send(await scrape()));
}

/** What acts on deliveries and destinations. */
export interface ActingPort {
  /** Null when the delivery does not exist. Throws `conflict` when its route is not in the settings. */
  retry(deliveryId: string, accounts?: readonly string[]): Promise<View<typeof retriedSchema> | null>;
  countReplay(filter: ReplayQuery): Promise<ReplayCountView>;
  /** Replays what matches `filter`, starting at `cursor` (null: the beginning), up to `limit` deliveries or some seconds. */
  replay(filter: ReplayQuery, cursor: string | null, limit: number): Promise<ReplayStep>;
  /** Whether the route's destination was stopped or paused. Throws `not_found` for a route that is not in the settings. */
  resume(route: string): Promise<boolean>;
  /** Throws `not_found` for a route that is not in the settings, and `conflict` for one without a `verifyToken`. */
  handshake(route: string, repeat: boolean): Promise<HandshakeView>;
  /** Throws `not_found` for a source that is not in the settings, and `conflict` for one without `graph`. */
  checkSource(source: string): Promise<SourceCheckView>;
  /** The quota stops that it ended. Throws `not_found` for an account that is not in the settings. */
  resumeAccount(account: string): Promise<readonly string[]>;
}

export function createActingHandlers(
  port: ActingPort,
): Pick<Handlers, "retryDelivery" | "replay" | "resumeRoute" | "performHandshake" | "checkSource" | "resumeAccount"> {
  return {
    async retryDelivery({ id, accounts }) {
      const retried = await port.retry(id, accounts);
      if (retried === null) throw new RelayError("not_found", "no such delivery");
      return retried;
    },
    replay: ({ dryRun, cursor, limit = Number.MAX_SAFE_INTEGER, ...filter }) =>
      dryRun ? port.countReplay(filter) : port.replay(filter, cursor, limit),
    resumeRoute: async ({ route }) => ({ route, resumed: await port.resume(route) }),
    checkSource: ({ source }) => port.checkSource(source),
    performHandshake: ({ route, repeat }) => port.handshake(route, repeat),
    async resumeAccount({ account }) {
      const ended = await port.resumeAccount(account);
      return { account, resumed: ended.length > 0, ended };
    },
  };
}

export interface ReconcilePort {
  /** Polls messages due by `dueBy` (null: now) for some seconds, of all accounts that can be polled if none is named. Throws `bad_request` for an account that cannot be polled. */
  reconcile(of: OfAccounts, dueBy: number | null, gone: AbortSignal): Promise<View<typeof reconciledSchema>>;
  /** What `reconcile` would do; polls nothing. */
  planReconcile(of: OfAccounts): Promise<View<typeof reconcilePlanSchema>>;
  /** The accounts of the settings, in their order. */
  accounts(limited?: readonly string[]): Promise<AccountsView["data"]>;
}

export function createReconcileHandlers(port: ReconcilePort): Pick<Handlers, "reconcile" | "listAccounts"> {
  return {
    reconcile: ({ dryRun, dueBy, ...of }, { reply }) =>
      dryRun ? port.planReconcile(of) : port.reconcile(of, dueBy, disconnectSignal(reply)),
    listAccounts: async ({ accounts }) => ({ data: await port.accounts(accounts) }),
  };
}

/** What is in effect in this process. */
export interface ProcessPort {
  instance(): InstanceView;
  /** With secrets masked. */
  settings(): Promise<SettingsView>;
  listeners(): Promise<ListenerView[]>;
  secretUses(): Promise<readonly SecretUseView[]>;
  sources(): Promise<readonly SourceView[]>;
  /** Reads the settings file again and applies it, or refuses it. Null: this process has no settings file. */
  reload(): Promise<ReloadView> | null;
  lastReload(): ReloadView;
}

export function createProcessHandlers(
  port: ProcessPort,
): Pick<Handlers, "getInstance" | "getSettings" | "listListeners" | "listSecrets" | "listSources" | "reloadSettings" | "getReload"> {
  return {
    getInstance: () => port.instance(),
    getSettings: () => port.settings(),
    listListeners: async () => ({ data: await port.listeners() }),
    listSecrets: async () => ({ data: await port.secretUses() }),
    listSources: async () => ({ data: await port.sources() }),
    async reloadSettings() {
      const view = await port.reload();
      if (view === null) throw new RelayError("conflict", "this process was not started with a settings file");
      if (view.result === "applied") return view;
      const [first] = view.faults;
      const more = view.faults.length > 1 ? ` and ${view.faults.length - 1} more` : "";
      const message = `the settings were not reloaded: ${first?.path} ${first?.message}${more}`;
      throw new RelayError("settings_refused", message, toAnswer(reloadSchema, view));
    },
    getReload: () => port.lastReload(),
  };
}
