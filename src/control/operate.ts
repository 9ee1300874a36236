import type { FastifyInstance } from "fastify";
import { z } from "zod";
import {
  accountResumedSchema,
  type InstanceView,
  instanceSchema,
  type ReloadView,
  reloadSchema,
  resumedSchema,
  type SecretUseView,
  secretUsesSchema,
} from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import { toAnswer } from "../model/view.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import { createScrape } from "./scrape.ts";

interface Readiness {
  readonly ready: boolean;
  readonly draining: boolean;
}

interface OperateParts {
  readonly instance: Pick<InstanceView, "instance" | "version">;
  /** `alarms`, `stops` and `settings` do not affect readiness. */
  readonly health: () => Readiness & {
    readonly alarms: readonly unknown[];
    readonly stops: readonly unknown[];
    readonly settings: unknown;
  };
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
}

/** `/healthz`, `/readyz` and `/metrics`: they need no token and hold nothing private. */
export function addOperateRoutes(app: FastifyInstance, { instance, health, metrics }: OperateParts): void {
  addHealthRoutes(app, instance, health);

  const scrape = createScrape(metrics.text);
  app.get("/metrics", async (_request, reply) => reply.header("content-type", metrics.contentType).send(await scrape()));
}

interface ProbeParts extends Pick<OperateParts, "instance"> {
  readonly health: () => Readiness;
}

/** `/healthz` and `/readyz` of the public port, where the others are at `server.control`: `/readyz` gives no details. */
export function addProbeRoutes(app: FastifyInstance, { instance, health }: ProbeParts): void {
  addHealthRoutes(app, instance, () => {
    const { ready, draining } = health();
    return { ready, draining };
  });
}

function addHealthRoutes(app: FastifyInstance, { instance, version }: OperateParts["instance"], health: () => Readiness): void {
  app.get("/healthz", async () => ({ status: "ok", instance, version }));

  app.get("/readyz", async (_request, reply) => {
    const report = health();
    return reply.code(report.ready ? 200 : 503).send(report);
  });
}

export interface ResumePort {
  /** Whether the route's destination was stopped or paused. Throws `not_found` for a route that is not in the settings. */
  resume(route: string): Promise<boolean>;
  /** The quota stops that it ended. Throws `not_found` for an account that is not in the settings. */
  resumeAccount(account: string): Promise<readonly string[]>;
}

const resume = {
  method: "POST",
  path: "/v1/routes/:route/resume",
  name: "resumeRoute",
  scope: "replay",
  summary: "Tries a destination now that stopped (410), paused (429 with Retry-After) or fails (its breaker is open)",
  params: z.strictObject({ route: z.string().describe("The route's name.") }),
  answers: { 200: { text: "`resumed` is false when it was neither stopped nor paused, and its breaker not open.", schema: resumedSchema } },
  errors: ["not_found"],
} as const;

const resumeAccount = {
  method: "POST",
  path: "/v1/accounts/:account/resume",
  name: "resumeAccount",
  scope: "replay",
  summary: "Ends the stops of an account's used-up quotas",
  description: "Also discards smaller per-minute caps that the service reported. The next refused call stops the account again.",
  params: z.strictObject({ account: z.string().describe("The account's name.") }),
  answers: { 200: { text: "`ended` names the stops; `resumed` is false when there were none.", schema: accountResumedSchema } },
  errors: ["not_found"],
} as const;

/** Resumes destinations and accounts: `POST /v1/routes/{route}/resume` and `POST /v1/accounts/{account}/resume`. */
export function addResumeRoutes(app: FastifyInstance, port: ResumePort, allow: Allow): void {
  addEndpoint(app, allow, resume, async ({ params: { route } }) => {
    const resumed = await port.resume(route);
    return { route, resumed };
  });

  addEndpoint(app, allow, resumeAccount, async ({ params: { account } }) => {
    const ended = await port.resumeAccount(account);
    return { account, resumed: ended.length > 0, ended: [...ended] };
  });
}

export type SecretsPort = () => Promise<readonly SecretUseView[]>;

const secrets = {
  method: "GET",
  path: "/v1/secrets",
  name: "listSecrets",
  scope: "read",
  summary: "How often each secret verified webhooks, and when last, by fingerprint",
  answers: {
    200: {
      text: "Secrets of the settings first, in their order there; then removed ones.",
      schema: secretUsesSchema,
    },
  },
} as const;

/** `GET /v1/secrets`. */
export function addSecretsRoute(app: FastifyInstance, secretUses: SecretsPort, allow: Allow): void {
  addEndpoint(app, allow, secrets, async () => toAnswer(secretUsesSchema, { data: await secretUses() }));
}

export type InstancePort = () => InstanceView;

const instance = {
  method: "GET",
  path: "/v1/instance",
  name: "getInstance",
  scope: "read",
  summary: "This process: its version, its role and its store",
  answers: { 200: { text: "The process that answered.", schema: instanceSchema } },
} as const;

/** `GET /v1/instance`. */
export function addInstanceRoute(app: FastifyInstance, view: InstancePort, allow: Allow): void {
  addEndpoint(app, allow, instance, async () => toAnswer(instanceSchema, view()));
}

export interface ReloadPort {
  /** Reads the settings file again and applies it, or refuses it. Null: this process has no settings file. */
  reload(): Promise<ReloadView> | null;
  last(): ReloadView;
}

const reload = {
  method: "POST",
  path: "/v1/reload",
  name: "reloadSettings",
  scope: "replay",
  summary: "Reads the settings, the env file and the secret files again, as SIGHUP does",
  description: "Applies to the process that answers. If anything is faulty, that process keeps the settings that it has.",
  answers: { 200: { text: "What changed.", schema: reloadSchema } },
  errors: ["settings_refused", "conflict"],
} as const;

const lastReload = {
  method: "GET",
  path: "/v1/reload",
  name: "getReload",
  scope: "read",
  summary: "What the last reload did, whether by SIGHUP or `POST /v1/reload`",
  answers: { 200: { text: "`trigger` is `start` before the first reload.", schema: reloadSchema } },
} as const;

/** `POST /v1/reload` and `GET /v1/reload`. */
export function addReloadRoutes(app: FastifyInstance, port: ReloadPort, allow: Allow): void {
  addEndpoint(app, allow, reload, async () => {
    const view = await port.reload();
    if (view === null) throw new RelayError("conflict", "this process was not started with a settings file");
    const answer = toAnswer(reloadSchema, view);
    if (answer.result === "applied") return answer;
    const [first] = answer.faults;
    const more = answer.faults.length > 1 ? ` and ${answer.faults.length - 1} more` : "";
    throw new RelayError("settings_refused", `the settings were not reloaded: ${first?.path} ${first?.message}${more}`, answer);
  });

  addEndpoint(app, allow, lastReload, async () => toAnswer(reloadSchema, port.last()));
}
