import { systemClock } from "../../model/system-clock.ts";
import { type Sandbox, startSandbox } from "../../sandbox/start-sandbox.ts";
import { createPace } from "../../sandbox/traffic/pace.ts";
import { checkMetaSums, createMetaPostLog } from "./meta-checks.ts";
import { metaVerifyToken } from "./relay.ts";
import { isRejected, lived, type People, peopleOf, speed } from "./service.ts";
import type { Played, Stage } from "./stage.ts";

const faults = {
  events: { duplicate: 0.12, wrongSignature: 0.01, malformed: 0.15 },
  meta: { batch: 40, skip: 0.1, early: 0.05, group: 0.05, username: 0.1, call: 0.03, unknown: 0.03 },
};

/** Sends through Meta's endpoint, and gets Meta's webhooks. */
export async function playMeta({ seed, messages, rate, url, secret, downstream, signal, adopt, begin }: Stage): Promise<Played> {
  const people = peopleOf(seed, { recipients: messages, strangers: 0, guests: 0 });
  const log = createMetaPostLog();
  const settings = { format: "meta", seed, speed, secret, verifyToken: metaVerifyToken, isUnlimited: true } as const;
  const sandbox = adopt(await startSandbox({ ...settings, faults, webhooks: [{ url: `${url}/webhooks/wa` }], onPost: log.note }), (one) =>
    one.close(),
  );
  for (const { phone, wroteBefore } of people.recipients) if (wroteBefore) sandbox.customerWrites(phone, "¿Está listo mi pedido?");
  /** References by wamid. */
  const sent = new Map<string, string>();
  const settled = begin({ service: sandbox.url, sent: () => sent.size, log });
  await sendAll({ sandbox, people, rate, signal, onSent: (wamid, reference) => sent.set(wamid, reference) });
  await lived(sandbox, people, signal);
  const { stats, counts } = await settled();
  const planned = people.recipients.filter(({ phone }) => !isRejected(phone)).length;
  return { counts, checks: checkMetaSums({ planned, sent, service: sandbox.messages(), log, stats, downstream }) };
}

/** Sends to every recipient at `rate` per second, text where the window is open. */
async function sendAll(options: {
  readonly sandbox: Sandbox;
  readonly people: People;
  readonly rate: number;
  readonly signal: AbortSignal;
  readonly onSent: (wamid: string, reference: string) => void;
}): Promise<void> {
  const { sandbox, people, rate, signal, onSent } = options;
  const pace = createPace(rate, systemClock);
  const sending: Promise<void>[] = [];
  const failed = new AbortController();
  for (const [index, { phone, wroteBefore }] of people.recipients.entries()) {
    await pace();
    AbortSignal.any([signal, failed.signal]).throwIfAborted();
    const reference = `order-${index + 1}`;
    const content = wroteBefore
      ? { type: "text", text: { body: `Tu pedido ${index + 1} está listo.` } }
      : { type: "template", template: { name: "bienvenida", language: { code: "es_AR" } } };
    const one = send(sandbox, { to: phone, ...content, biz_opaque_callback_data: reference }, signal).then((wamid) => {
      if (wamid !== null) onSent(wamid, reference);
    });
    one.catch((error: unknown) => failed.abort(error));
    sending.push(one);
  }
  await Promise.all(sending);
}

/** The wamid; null: the provider rejects the message for good. */
async function send({ url, key, phoneNumberId }: Sandbox, body: object, signal: AbortSignal): Promise<string | null> {
  for (;;) {
    const answer = await fetch(`${url}/v24.0/${phoneNumberId}/messages`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ messaging_product: "whatsapp", ...body }),
      signal,
    });
    const { messages: [message] = [], error } = (await answer.json()) as Answer;
    if (message !== undefined) return message.id;
    if (answer.status === 400) return null;
    // Temporary: it is accepted the second time.
    if (answer.status !== 503) throw new Error(`the sandbox answered a send ${answer.status}: ${error?.message}`);
  }
}

interface Answer {
  readonly messages?: readonly { readonly id: string }[];
  readonly error?: { readonly message: string };
}
