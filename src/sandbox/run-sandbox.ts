import { hash } from "node:crypto";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import type { z } from "zod";
import { type Clock, systemClock } from "../model/clock.ts";
import { createApiApp } from "./api/app.ts";
import { ApiFault } from "./api/fault.ts";
import { addApiRoutes, addHookRoutes } from "./api/routes.ts";
import type { ClockControls } from "./clock.ts";
import { createAccountSetup, seedWorld } from "./control/account-setup.ts";
import { addControlRoutes } from "./control/control.ts";
import { faultsSchema } from "./faults.ts";
import { type Happening, reportChanges, reportRefusals } from "./happenings.ts";
import { addMcpRoutes } from "./mcp.ts";
import { type Memory, openMemory } from "./memory.ts";
import { createCallbacks } from "./meta/callbacks.ts";
import { addGraphRoutes } from "./meta/graph-routes.ts";
import { type SandboxOptions, sandboxOptionsSchema, webhookOptionsSchema } from "./options.ts";
import { SandboxRefused } from "./sandbox-refused.ts";
import { createService } from "./service.ts";
import type { Table } from "./table.ts";
import { accountOf, mainAccount, type World } from "./world.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** The messaging service, played on this machine. `await using` closes it. */
export type Sandbox = Awaited<ReturnType<typeof startOn>>;

export async function runSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { clock: baseClock = systemClock, onHappening, onPost, ...given } = options;
  const settings = sandboxOptionsSchema.parse(given);
  const watch =
    onHappening === undefined ? null : (world: World) => reportChanges(world, onHappening);
  const memory = await openMemory({ ...settings, baseClock, watch });
  try {
    return await startOn(memory, settings, baseClock, onHappening ?? warn, onPost);
  } catch (error) {
    memory.close();
    throw error;
  }
}

async function startOn(
  memory: Memory,
  settings: z.output<typeof sandboxOptionsSchema>,
  baseClock: Clock,
  report: (happening: Happening) => void,
  onPost: SandboxOptions["onPost"],
) {
  const { world, clock, secret, file } = memory;
  const { format, plan = "escala", host, port } = settings;
  const core = { ...memory, baseClock, speed: settings.speed };
  for (const { meta } of world.webhooks.all()) {
    if ((meta === undefined) === (format === "meta"))
      throw new SandboxRefused(`the state file has webhooks of another format than ${format}`);
  }
  const verifyToken = format === "meta" ? (settings.verifyToken ?? tokenFrom(secret)) : null;
  const setup = createAccountSetup(core, { service: settings.service, secret, verifyToken });
  try {
    seedWorld(memory, setup, settings);
  } catch (error) {
    throw error instanceof ApiFault ? new SandboxRefused(`webhooks: ${error.message}`) : error;
  }

  const faults = { current: settings.faults };
  const callbacks =
    format === "meta"
      ? createCallbacks(core, (handshake) => report({ what: "handshake", ...handshake }))
      : null;
  const service = createService(core, { ...settings, faults, onPost });
  const { events } = service;
  let url = "";
  const failed = (error: unknown) => report({ what: "failed", error });
  const app = createApiApp(service, { failed, routes: (scope) => addApiRoutes(scope, service) });
  if (format === "meta") addGraphRoutes(app, service, failed);
  addHookRoutes(app, service);
  addMcpRoutes(app, service);
  addControlRoutes(app, { ...service, clock, setup, defaultPlan: plan, url: () => url, callbacks });
  const stop = async () => {
    await callbacks?.close();
    events.meta?.flush();
    await app.close();
    await service.close();
  };
  // An answer means that its changes are in the file.
  if (file !== null)
    app.addHook(
      "onSend",
      (_request, _reply, payload, done) =>
        void file.written().then(() => done(null, payload), done),
    );
  reportRefusals(app, report);
  try {
    url = await listen(app, host, port);
  } catch (error) {
    await stop();
    throw error;
  }
  service.resume();
  if (callbacks !== null) await Promise.all([...world.webhooks.all()].map(callbacks.verifySoon));

  const apiUrl = `${url}/api/v1`;
  const account = accountOf(world, mainAccount);
  const key =
    settings.key ??
    world.keys.list(mainAccount).find(({ revokedAt }) => revokedAt === null)?.key ??
    "";
  const copiesOf =
    <T extends { readonly id: string; readonly account: string }>(table: Table<T>) =>
    () =>
      structuredClone([...table.list(mainAccount)]);
  let closing: Promise<void> | null = null;
  const close = (): Promise<void> => (closing ??= stop().then(memory.close));
  return {
    /** `http://127.0.0.1:<port>`: the base URL, of which the API root is `/api/v1`. */
    url,
    apiUrl,
    key,
    secret,
    verifyToken,
    phoneNumberId: account.numbers[0]?.phoneNumberId ?? "",
    clock: clock as ClockControls,
    call: (method: string, path: string, body?: unknown) =>
      ask(method, `${apiUrl}${path}`, { authorization: `Bearer ${key}` }, body),
    /**
     * Calls an endpoint of docs/contributing/sandbox.md: `control("PUT", "/faults", {…})` is `PUT
     * /sandbox/faults`.
     */
    control: (method: string, path: string, body?: unknown) =>
      ask(method, `${url}/sandbox${path}`, {}, body),
    customerWrites: (phone: string, text: string, name?: string) =>
      structuredClone(service.customerWrites(mainAccount, { phone, text, name })),
    /** Of the format `meta`, it is posted to once its handshake succeeded. */
    addWebhook(order: z.input<typeof webhookOptionsSchema>) {
      const webhook = setup.addWebhook(account, webhookOptionsSchema.parse(order));
      void callbacks?.verifySoon(webhook);
      return structuredClone(webhook);
    },
    /** Replaces all faults; without any, there are none. */
    setFaults(next: z.input<typeof faultsSchema> = {}) {
      faults.current = faultsSchema.parse(next);
    },
    plan: () => account.plan,
    /** Copies of the records as they are now, oldest first; so are those that follow. */
    webhooks: copiesOf(world.webhooks),
    templates: copiesOf(world.templates),
    automations: copiesOf(world.automations),
    messages: copiesOf(world.messages),
    runs: copiesOf(world.runs),
    events() {
      const deliveries = Map.groupBy(world.deliveries.list(mainAccount), ({ eventId }) => eventId);
      return structuredClone(
        world.events
          .list(mainAccount)
          .map((event) => ({ ...event, deliveries: deliveries.get(event.id) ?? [] })),
      );
    },
    /** Resolves once no event waits to be delivered; rejects after `withinMs`. */
    async idle(withinMs = 5_000) {
      const late = Promise.withResolvers<never>();
      const cancel = baseClock.after(withinMs, () =>
        late.reject(new Error(`${events.waiting()} deliveries still wait after ${withinMs} ms`)),
      );
      await Promise.race([events.idle(), late.promise]).finally(cancel);
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function tokenFrom(secret: string): string {
  return hash("sha256", `verify token\0${secret}`).slice(0, 32);
}

function warn(happening: Happening): void {
  if (happening.what === "failed") process.emitWarning(happening.error as Error);
}

async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    throw new SandboxRefused(whyNot(error, host, port));
  }
  const { address, family, port: own } = app.server.address() as AddressInfo;
  if (address === "0.0.0.0" || address === "::") return `http://127.0.0.1:${own}`;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${own}`;
}

function whyNot(error: unknown, host: string, port: number): string {
  const { code, message } = error as { code?: string; message: string };
  if (code === "EADDRINUSE") return `port ${port} on ${host} is taken by another process`;
  if (code === "EACCES") return `this user may not listen on port ${port}`;
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND")
    return `${host} is no address of this machine`;
  return `cannot listen on ${host}:${port}: ${message}`;
}

async function ask(
  method: string,
  url: string,
  headers: Record<string, string>,
  body: unknown,
): Promise<Answer> {
  const json = {
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  const answer = await fetch(url, { method, headers, ...(body !== undefined && json) });
  const text = await answer.text();
  return {
    status: answer.status,
    headers: answer.headers,
    body: text === "" ? null : parsed(text),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
