import { setTimeout as sleep } from "node:timers/promises";
import { Secret } from "../../model/secret.ts";
import { systemClock } from "../../model/system-clock.ts";
import { createRandom, type Random } from "../../sandbox/random.ts";
import { type ObservedPost, type Sandbox, startSandbox } from "../../sandbox/start-sandbox.ts";
import { createPace } from "../../sandbox/traffic/pace.ts";
import { createPhones } from "../../sandbox/wamids.ts";
import { createServiceClient, type ServiceClient } from "../../service/client.ts";
import type { Receipt, SendBody, Template } from "../../service/endpoints.ts";
import { ServiceError } from "../../service/errors.ts";
import { createLimiter } from "../../service/limits/limiter.ts";

/** Message lifecycles of a minute take three seconds. */
export const speed = 20;

/** Faults of event posts, as shares of all posts. */
const faults = { duplicate: 0.12, reorder: 0.12, truncate: 0.01, wrongSignature: 0.01, malformed: 0.015 };

/** Simulates the messaging service in this process. Events go to the relay's source; `onPost` receives each post. */
export function startService(options: {
  readonly seed: string;
  readonly webhookUrl: string;
  readonly secret: string;
  readonly onPost: (post: ObservedPost) => void;
}): Promise<Sandbox> {
  const { seed, webhookUrl, secret, onPost } = options;
  return startSandbox({ seed, speed, isUnlimited: true, secret, faults: { events: faults }, webhooks: [{ url: webhookUrl }], onPost });
}

/** Prepares customers who wrote first, and an automation that fails. */
export async function setScene(sandbox: Sandbox, { recipients }: People): Promise<void> {
  for (const { phone, wroteBefore } of recipients)
    if (wroteBefore) sandbox.customerWrites(phone, "Hola, ¿me avisan cuando esté mi pedido?");
  const { status } = await sandbox.control("POST", "/automations", {
    name: automationFails,
    steps: [{ type: "fail", error: "El pedido no existe." }],
  });
  if (status !== 201) throw new Error(`the sandbox took no automation: ${status}`);
}

/** A campaign whose messages are not registered at the relay. */
export async function startCampaign(sandbox: Sandbox, strangers: readonly string[]): Promise<void> {
  if (strangers.length === 0) return;
  const { status } = await sandbox.control("POST", "/campaigns", { name: "Ofertas", phones: strangers, perSecond: 200 });
  if (status !== 201) throw new Error(`the sandbox started no campaign: ${status}`);
}

/** Whether every message and run is in its final state. */
function isOver(sandbox: Sandbox, people: People): boolean {
  const messages = sandbox.messages();
  return (
    messages.filter(({ origin }) => origin === "campaign").length === people.strangers.length &&
    messages.every(({ future }) => future.length === 0) &&
    sandbox.runs().every(({ status }) => status !== "running")
  );
}

/** How long lives may go on after the last send, in milliseconds. */
const liveWithinMs = 60_000;

/** Waits until the service is idle. After a timeout the sums show the difference. */
export async function lived(sandbox: Sandbox, people: People, signal: AbortSignal): Promise<void> {
  const isIdle = () =>
    sandbox.idle(200).then(
      () => true,
      () => false,
    );
  for (const end = Date.now() + liveWithinMs; Date.now() < end; await sleep(200, undefined, { signal })) {
    if (isOver(sandbox, people) && (await isIdle())) return;
  }
}

/** A recipient of a message. */
interface Recipient {
  /** With its plus. */
  readonly phone: string;
  /** The 24-hour window is open: free text may be sent. */
  readonly wroteBefore: boolean;
}

/** All phones of a demo; each is unique. */
export interface People {
  readonly recipients: readonly Recipient[];
  /** Recipients of a campaign that is not registered at the relay. */
  readonly strangers: readonly string[];
  /** Recipients of automation runs. Every fourth has no account on the network. */
  readonly guests: readonly string[];
}

/**
 * Numbers with a fixed outcome (docs/contributing/sandbox.md) and their shares of all recipients. 0009 is missing: ten times
 * as slow would be longer than the demo.
 */
const meaningful: readonly (readonly [lastDigits: string, share: number])[] = [
  ["0000", 0.05],
  ["0001", 0.05],
  ["0002", 0.02],
  ["0003", 0.03],
  ["0004", 0.05],
  ["0005", 0.01],
  ["0006", 0.02],
  ["0007", 0.05],
  ["0008", 0.02],
  ["0010", 0.03],
];

/** Whether the provider rejects messages to this phone for good. */
export function isRejected(phone: string): boolean {
  return phone.endsWith("0005");
}

/** The same seed makes the same people. */
export function peopleOf(seed: string, counts: Readonly<Record<keyof People, number>>): People {
  const random = createRandom(`${seed}/people`);
  const newPhone = phones(random.fork("phones"));
  return {
    recipients: times(counts.recipients, () => ({ phone: newPhone(drawDigits(random)), wroteBefore: random.chance(0.5) })),
    strangers: times(counts.strangers, () => newPhone(null)),
    guests: times(counts.guests, (index) => newPhone(index % 4 === 3 ? "0000" : null)),
  };
}

function drawDigits(random: Random): string | null {
  let drawn = random.next();
  for (const [digits, share] of meaningful) {
    if (drawn < share) return digits;
    drawn -= share;
  }
  return null;
}

/** Generates unique phones with these last digits; null: digits without a meaning. */
function phones(random: Random): (digits: string | null) => string {
  const draw = createPhones(random);
  const known = new Set<string>();
  return (digits) => {
    for (;;) {
      const drawn = draw();
      const phone = `+${digits === null ? drawn : drawn.slice(0, -4) + digits}`;
      // Meaningful last digits start with 00.
      if ((digits === null && phone.slice(-4, -2) === "00") || known.has(phone)) continue;
      known.add(phone);
      return phone;
    }
  };
}

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/** Name of the automation whose runs all fail. */
const automationFails = "Aviso de pedido";

/**
 * The relay's own client of the service, with its limiter. The sandbox has its caps lifted; these are far enough above
 * `rate` (messages per second) that nothing waits for them.
 */
export function createSender({ url, key }: Pick<Sandbox, "url" | "key">, rate: number): ServiceClient {
  const messages = rate * 120;
  return createServiceClient({
    baseUrl: url,
    apiKey: new Secret(key),
    clock: systemClock,
    admission: createLimiter({ clock: systemClock, caps: { requests: messages + 60_000, messages }, share: 1 }),
    connections: 8,
    // Only the text distinguishes temporary reasons of the provider from others.
    retry: { attempts: 3, firstMs: 100, isTemporary: (text) => !text.includes("método de pago") },
  });
}

/** Sends to every recipient at `rate` per second, text where the window is open, and starts a run for every guest. */
export async function sendAll(options: {
  readonly sender: ServiceClient;
  readonly sandbox: Pick<Sandbox, "automations">;
  readonly people: People;
  readonly rate: number;
  readonly signal: AbortSignal;
  /** Receives each message that the service accepted. */
  readonly onReceipt: (receipt: Receipt) => void;
}) {
  const { sender, sandbox, people, rate, signal, onReceipt } = options;
  const templates = await sender.listTemplates({ signal });
  const receipts: Receipt[] = [];
  const pace = createPace(rate, systemClock);
  const send = async (recipient: Recipient, index: number): Promise<void> => {
    try {
      const receipt = await sender.sendMessage(bodyFor(recipient, index, templates), { signal });
      receipts.push(receipt);
      onReceipt(receipt);
    } catch (error) {
      // Permanent rejections are expected; the sums count them.
      if (!(error instanceof ServiceError) || error.kind !== "rejected") throw error;
    }
  };
  const sending: Promise<void>[] = [];
  const failed = new AbortController();
  for (const [index, recipient] of people.recipients.entries()) {
    await pace();
    AbortSignal.any([signal, failed.signal]).throwIfAborted();
    sending.push(send(recipient, index));
    sending.at(-1)?.catch((error: unknown) => failed.abort(error));
  }
  await startRuns(sender, sandbox, people, signal);
  await Promise.all(sending);
  return receipts;
}

function bodyFor({ phone, wroteBefore }: Recipient, index: number, templates: readonly Template[]): SendBody {
  if (wroteBefore) return { to: phone, text: `Tu pedido ${index + 1} está listo.` };
  const template = templates[index % templates.length];
  if (template === undefined) throw new Error("the service lists no template");
  // Other variables are filled from the contact, the fallback or the example.
  const variables = template.variables.some(({ name }) => name === "fecha") ? { fecha: "lunes a las 10" } : {};
  return { to: phone, template: { id: template.id, variables } };
}

async function startRuns(sender: ServiceClient, sandbox: Pick<Sandbox, "automations">, people: People, signal: AbortSignal): Promise<void> {
  const automations = sandbox.automations().filter(({ trigger }) => trigger === "manual");
  for (const [index, phone] of people.guests.entries()) {
    // Every third run fails.
    const automation = automations.find(({ name }) => (name === automationFails) === (index % 3 === 0));
    if (automation === undefined) throw new Error("the sandbox has no such automation");
    await sender.startRun(automation.id, { phone, data: { pedido: `order-${index + 1}` } }, { signal });
  }
}
