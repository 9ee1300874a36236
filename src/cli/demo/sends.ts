import { systemClock } from "../../app/system-clock.ts";
import { Secret } from "../../event/secret.ts";
import type { Sandbox } from "../../sandbox/start-sandbox.ts";
import { createPace } from "../../sandbox/traffic/pace.ts";
import { createServiceClient, type ServiceClient } from "../../service-api/client.ts";
import { createLimiter } from "../../service-api/limits/limiter.ts";
import type { Receipt, SendBody, Template } from "../../service-api/schemas.ts";
import { ServiceError } from "../../service-api/service-error.ts";
import type { People, Recipient } from "./people.ts";

/** Name of the automation whose runs all fail. */
export const automationFails = "Aviso de pedido";

interface Sent {
  /** In the order in which they were accepted. */
  readonly receipts: readonly Receipt[];
  readonly runIds: readonly string[];
}

const atOnce = 8;

/**
 * The relay's own client of the service, with its limiter. The sandbox has its caps lifted; these are far enough above
 * `rate` (messages per second) that nothing waits for them.
 */
export function createClient({ url, key }: Pick<Sandbox, "url" | "key">, rate: number): ServiceClient {
  const messages = rate * 120;
  return createServiceClient({
    baseUrl: url,
    apiKey: new Secret(key),
    clock: systemClock,
    admission: createLimiter({ clock: systemClock, caps: { requests: messages + 60_000, messages }, share: 1 }),
    connections: atOnce,
    // The document tells temporary reasons of the provider from others by text alone.
    retry: { attempts: 3, firstMs: 100, isTemporary: (text) => !text.includes("método de pago") },
  });
}

/** Sends to every recipient at `rate` per second, text where the window is open, and starts a run for every guest. */
export async function sendAll(options: {
  readonly client: ServiceClient;
  readonly sandbox: Pick<Sandbox, "automations">;
  readonly people: People;
  readonly rate: number;
  readonly signal: AbortSignal;
  /** Told of each message that the service accepted. */
  readonly onReceipt: (receipt: Receipt) => void;
}): Promise<Sent> {
  const { client, sandbox, people, rate, signal, onReceipt } = options;
  const templates = await client.listTemplates({ signal });
  const receipts: Receipt[] = [];
  const send = async (recipient: Recipient, index: number): Promise<void> => {
    try {
      const receipt = await client.sendMessage(bodyFor(recipient, index, templates), { signal });
      receipts.push(receipt);
      onReceipt(receipt);
    } catch (error) {
      // Some are rejected for good; how many, the sums tell.
      if (!(error instanceof ServiceError) || error.kind !== "rejected") throw error;
    }
  };
  const [runIds] = await Promise.all([startRuns({ client, sandbox, people, signal }), paced(people.recipients, rate, send, signal)]);
  return { receipts, runIds };
}

function bodyFor({ phone, wroteBefore }: Recipient, index: number, templates: readonly Template[]): SendBody {
  if (wroteBefore) return { to: phone, text: `Tu pedido ${index + 1} está listo.` };
  const template = templates[index % templates.length];
  if (template === undefined) throw new Error("the service lists no template");
  // What is not given is filled from the contact, or is the fallback or example.
  const variables = template.variables.some(({ name }) => name === "fecha") ? { fecha: "lunes a las 10" } : {};
  return { to: phone, template: { id: template.id, variables } };
}

async function startRuns({
  client,
  sandbox,
  people,
  signal,
}: Pick<Parameters<typeof sendAll>[0], "client" | "sandbox" | "people" | "signal">) {
  const automations = sandbox.automations().filter(({ trigger }) => trigger === "manual");
  const runIds: string[] = [];
  for (const [index, phone] of people.guests.entries()) {
    // One in three fails whoever it is for.
    const automation = automations.find(({ name }) => (name === automationFails) === (index % 3 === 0));
    if (automation === undefined) throw new Error("the sandbox has no such automation");
    runIds.push((await client.startRun(automation.id, { phone, data: { pedido: `order-${index + 1}` } }, { signal })).runId);
  }
  return runIds;
}

/** Works through `all` in order, `rate` begun per second and `atOnce` at once; ends with the first failure. */
async function paced<T>(
  all: readonly T[],
  rate: number,
  work: (one: T, index: number) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const pace = createPace(rate, systemClock);
  const entries = all.entries();
  const failed = new AbortController();
  const ended = AbortSignal.any([signal, failed.signal]);
  const worker = async (): Promise<void> => {
    for (const [index, one] of entries) {
      await pace();
      ended.throwIfAborted();
      await work(one, index);
    }
  };
  await Promise.all(
    Array.from({ length: atOnce }, () =>
      worker().catch((error: unknown) => {
        failed.abort(error);
        throw error;
      }),
    ),
  );
}
