import { createHash } from "node:crypto";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Clock } from "../model/clock.ts";
import { systemClock } from "../model/system-clock.ts";
import { ApiFault } from "./api/fault.ts";
import { assemble } from "./assemble.ts";
import { createAccountSetup, newSecret } from "./control/account-setup.ts";
import type { FaultBox, FaultSettings } from "./faults.ts";
import { type Happening, reportChanges, reportRefusals } from "./happenings.ts";
import { type Memory, openMemory } from "./memory.ts";
import { createCallbacks } from "./meta/callbacks.ts";
import { type SandboxOptions, SandboxRefused, sandboxOptionsSchema } from "./options.ts";
import { createHandle, type Sandbox } from "./sandbox.ts";
import { seedWorld, setUpAgain } from "./seed-world.ts";

/** Starts the service; `startSandbox` (start-sandbox.ts) describes it. */
export async function runSandbox({ clock: baseClock = systemClock, onHappening, onPost, ...given }: SandboxOptions): Promise<Sandbox> {
  const settings = sandboxOptionsSchema.parse(given);
  const memory = await openMemory({
    file: settings.file,
    seed: settings.seed,
    keepMessages: settings.keepMessages,
    baseClock,
    newSecret,
    secret: settings.secret,
    watch: onHappening === undefined ? null : (world) => reportChanges(world, onHappening),
  });
  try {
    return await startOn(memory, settings, baseClock, onHappening ?? warn, onPost);
  } catch (error) {
    memory.close();
    throw error;
  }
}

async function startOn(
  memory: Memory,
  settings: ReturnType<typeof sandboxOptionsSchema.parse>,
  baseClock: Clock,
  report: (happening: Happening) => void,
  onPost: SandboxOptions["onPost"],
): Promise<Sandbox> {
  const { world, clock, clockControls, ids, random, secret, formerSecret, file } = memory;
  const { format, plan, key, webhooks, phoneNumberIds, service, speed, isUnlimited, host, port } = settings;
  for (const { meta } of world.webhooks.all()) {
    if ((meta === undefined) === (format === "meta"))
      throw new SandboxRefused(`the state file has webhooks of another format than ${format}`);
  }
  const verifyToken = format === "meta" ? (settings.verifyToken ?? tokenFrom(secret)) : null;
  const setup = createAccountSetup({ world, now: clock.now, ids, service, secret: () => secret, verifyToken });
  if (world.accounts.size === 0) seedWorld({ setup, plan: plan ?? "escala", key, phoneNumberIds });
  try {
    setUpAgain({ world, setup, plan, key, webhooks, phoneNumberIds, secret, formerSecret });
  } catch (error) {
    throw error instanceof ApiFault ? new SandboxRefused(`webhooks: ${(error.body as { error: string }).error}`) : error;
  }

  const faults = createFaultBox(settings.faults);
  const callbacks =
    format === "meta"
      ? createCallbacks({ world, baseClock, random, report: (handshake) => report({ what: "handshake", ...handshake }) })
      : null;
  let url = "";
  const assembled = assemble({
    world,
    clock,
    clockControls,
    baseClock,
    ids,
    random,
    setup,
    faults,
    speed,
    isUnlimited,
    defaultPlan: plan ?? "escala",
    url: () => url,
    failed: (error) => report({ what: "failed", error }),
    onPost,
    callbacks,
  });
  const { app, posting } = assembled;
  // An answer means that its changes are in the file.
  if (file !== null) app.addHook("onSend", (_request, _reply, payload, done) => void file.written().then(() => done(null, payload), done));
  reportRefusals(app, report);
  try {
    url = await listen(app, host, port);
  } catch (error) {
    await assembled.close();
    throw error;
  }
  assembled.resume();
  if (callbacks !== null) await Promise.all([...world.webhooks.all()].map(callbacks.verifySoon));
  return createHandle({
    world,
    url,
    key,
    secret,
    verifyToken,
    clock: clockControls,
    setup,
    faults,
    customerWrites: assembled.customerWrites,
    webhookAdded: (webhook) => void callbacks?.verifySoon(webhook),
    posting,
    after: baseClock.after,
    async close() {
      await assembled.close();
      memory.close();
    },
  });
}

/** The same after a restart with the same state file. */
function tokenFrom(secret: string): string {
  return createHash("sha256").update(`verify token\0${secret}`).digest("hex").slice(0, 32);
}

/** Without a listener, the sandbox still reports its own failures. */
function warn(happening: Happening): void {
  if (happening.what === "failed") process.emitWarning(happening.error as Error);
}

function createFaultBox(faults: FaultSettings): FaultBox {
  let inForce = faults;
  return {
    get: () => inForce,
    set(next) {
      inForce = next;
    },
  };
}

/** The URL at which it answers, without a path. */
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
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") return `${host} is no address of this machine`;
  return `cannot listen on ${host}:${port}: ${message}`;
}
