import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../model/clock.ts";
import { createPhones, createRandom } from "../../sandbox/ids.ts";
import type { Sandbox, SandboxOptions } from "../../sandbox/start-sandbox.ts";
import { createPace } from "../../sandbox/traffic/scenario.ts";
import { type DemoFormat, metaVerifyToken } from "./settings.ts";

const faults: Readonly<Record<DemoFormat, NonNullable<SandboxOptions["faults"]>>> = {
  standard: { events: { duplicate: 0.12, reorder: 0.12, wrongSignature: 0.01, malformed: 0.015 } },
  meta: {
    events: { duplicate: 0.12, wrongSignature: 0.01, malformed: 0.15 },
    meta: {
      batch: 40,
      skip: 0.1,
      early: 0.05,
      group: 0.05,
      username: 0.1,
      call: 0.03,
      unknown: 0.03,
    },
  },
};

/** The sandbox of a demo. Message lifecycles of a minute take three seconds. */
export function sandboxOptions(format: DemoFormat): SandboxOptions {
  return {
    format,
    speed: 20,
    isUnlimited: true,
    faults: faults[format],
    ...(format === "meta" && { verifyToken: metaVerifyToken }),
  };
}

interface PlayOptions {
  readonly format: DemoFormat;
  readonly sandbox: Sandbox;
  readonly people: People;
  readonly rate: number;
  readonly signal: AbortSignal;
  readonly onSent: (wamid: string, reference: string) => void | Promise<void>;
}

export async function play({
  format,
  sandbox,
  people,
  rate,
  signal,
  onSent,
}: PlayOptions): Promise<void> {
  for (const { phone, wroteBefore } of people.recipients)
    if (wroteBefore) sandbox.customerWrites(phone, "¿Está listo mi pedido?");
  if (people.strangers.length > 0)
    await created(
      sandbox.control("POST", "/campaigns", {
        name: "Ofertas",
        phones: people.strangers,
        perSecond: 200,
      }),
    );
  const pace = createPace(rate, systemClock);
  const failed = new AbortController();
  const sending: Promise<void>[] = [];
  for (const [index, recipient] of people.recipients.entries()) {
    await pace();
    AbortSignal.any([signal, failed.signal]).throwIfAborted();
    const reference = `order-${index + 1}`;
    const one = send(format, sandbox, recipient, reference).then((wamid) =>
      wamid === null ? undefined : onSent(wamid, reference),
    );
    one.catch((error: unknown) => failed.abort(error));
    sending.push(one);
  }
  const automation = sandbox.automations().find(({ trigger }) => trigger === "manual");
  for (const [index, phone] of people.guests.entries())
    await created(
      sandbox.call("POST", `/automations/${automation?.id}/runs`, {
        phone,
        data: { pedido: `order-${index + 1}` },
      }),
    );
  await Promise.all(sending);
  await lived(sandbox, people, signal);
}

async function created(answer: ReturnType<Sandbox["call"]>): Promise<void> {
  const { status, body } = await answer;
  if (status < 200 || status > 299)
    throw new Error(`the sandbox answered ${status}: ${JSON.stringify(body)}`);
}

/** The wamid; null: the provider rejects the message for good. */
async function send(
  format: DemoFormat,
  sandbox: Sandbox,
  recipient: Recipient,
  reference: string,
): Promise<string | null> {
  const { url, body } = requestOf(format, sandbox, recipient, reference);
  for (;;) {
    const answer = await fetch(url, {
      method: "POST",
      headers: { authorization: `Bearer ${sandbox.key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const sent = (await answer.json()) as { wamid?: string; messages?: { id: string }[] };
    const wamid = sent.wamid ?? sent.messages?.[0]?.id;
    if (wamid !== undefined) return wamid;
    if (isRejected(recipient.phone)) return null;
    // The provider's passing faults: it accepts the message the second time.
    if (answer.status !== 502 && answer.status !== 503)
      throw new Error(`the sandbox answered a send ${answer.status}`);
  }
}

/** Where a client of the service, or of Meta's, sends a message. */
function requestOf(
  format: DemoFormat,
  sandbox: Sandbox,
  { phone: to, wroteBefore }: Recipient,
  reference: string,
) {
  const text = `Tu pedido está listo (${reference}).`;
  if (format === "standard") {
    const template = sandbox.templates().find(({ variables }) => variables.length === 0);
    const content = wroteBefore ? { text } : { template: { id: template?.id } };
    return { url: `${sandbox.apiUrl}/messages`, body: { to, ...content } };
  }
  const content = wroteBefore
    ? { type: "text", text: { body: text } }
    : { type: "template", template: { name: "bienvenida", language: { code: "es_AR" } } };
  return {
    url: `${sandbox.url}/v24.0/${sandbox.phoneNumberId}/messages`,
    body: { messaging_product: "whatsapp", to, ...content, biz_opaque_callback_data: reference },
  };
}

const liveWithinMs = 60_000;

/**
 * Waits until every message and run is in its final state. After a timeout the sums show the
 * difference.
 */
async function lived(sandbox: Sandbox, people: People, signal: AbortSignal): Promise<void> {
  const isOver = () => {
    const messages = sandbox.messages();
    return (
      messages.filter(({ origin }) => origin === "campaign").length === people.strangers.length &&
      messages.every(({ future }) => future.length === 0) &&
      sandbox.runs().every(({ status }) => status !== "running")
    );
  };
  for (const end = Date.now() + liveWithinMs; Date.now() < end; ) {
    try {
      if (isOver()) return await sandbox.idle(200);
    } catch {
      // Events still wait to be delivered.
    }
    await sleep(200, undefined, { signal });
  }
}

interface Recipient {
  /** With its plus. */
  readonly phone: string;
  /** The 24-hour window is open: free text may be sent. */
  readonly wroteBefore: boolean;
}

export interface People {
  readonly recipients: readonly Recipient[];
  /** Recipients of a campaign that is not registered at the relay. */
  readonly strangers: readonly string[];
  readonly guests: readonly string[];
}

/**
 * Last digits with a fixed outcome (docs/contributing/sandbox.md), but for 0009, which would be too
 * slow.
 */
const meaningful = [
  "0000",
  "0001",
  "0002",
  "0003",
  "0004",
  "0005",
  "0006",
  "0007",
  "0008",
  "0010",
] as const;

export function isRejected(phone: string): boolean {
  return phone.endsWith("0005");
}

/** The same seed makes the same people. Campaigns and automations are the service's own. */
export function peopleOf(seed: string, format: DemoFormat, messages: number): People {
  const random = createRandom(`${seed}/people`);
  const draw = createPhones(random.fork("phones"));
  const known = new Set<string>();
  const newPhone = (lastDigits: string | null): string => {
    const drawn = draw();
    const phone = `+${lastDigits === null ? drawn : drawn.slice(0, -4) + lastDigits}`;
    // Those with a meaning start with 00.
    if (known.has(phone) || (lastDigits === null && phone.slice(-4, -2) === "00"))
      return newPhone(lastDigits);
    known.add(phone);
    return phone;
  };
  const others = (count: number) =>
    Array.from({ length: format === "standard" ? Math.ceil(count) : 0 }, () => newPhone(null));
  return {
    recipients: Array.from({ length: messages }, () => ({
      phone: newPhone(random.chance(0.3) ? random.pick(meaningful) : null),
      wroteBefore: random.chance(0.5),
    })),
    strangers: others(messages / 2),
    guests: others(messages / 20),
  };
}
