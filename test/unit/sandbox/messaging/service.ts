import { ApiFault } from "../../../../src/sandbox/api/fault.ts";
import { createSandboxClock } from "../../../../src/sandbox/clock.ts";
import type { Publisher } from "../../../../src/sandbox/events/publisher.ts";
import { createGrowingIds, createRandom } from "../../../../src/sandbox/ids.ts";
import { createMessaging } from "../../../../src/sandbox/messaging/messaging.ts";
import type { AccountRecord, TemplateRecord } from "../../../../src/sandbox/world/records.ts";
import { createWorld, type World } from "../../../../src/sandbox/world/world.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";

/** A status as it was published: the moment, since the start, in milliseconds. */
export interface Published {
  readonly after: number;
  readonly wamid: string;
  readonly status: string;
  readonly errorCode?: string | number;
}

export const start = Date.parse("2026-11-21T12:00:00.000Z");
export const minute = 60_000;
export const day = 24 * 60 * minute;

/** Messaging with an account `main` that has one number and one approved template, on a clock that stands still. */
export function createService({ seed = 1, speed = 1, world = createWorld({ changed() {} }), at = start } = {}) {
  const clock = createSandboxClock(createManualClock(at));
  clock.freeze();
  const random = createRandom(seed);
  const greatest = [...world.messages.all()].at(-1)?.id;
  const ids = createGrowingIds({ now: clock.now, random: random.fork("ids"), ...(greatest === undefined ? {} : { after: greatest }) });
  const published: Published[] = [];
  const nothing = () => {};
  const publisher: Publisher = {
    messageStatus({ wamid, status, errorCode }) {
      const about = { after: clock.now() - start, wamid, status };
      published.push(errorCode === undefined ? about : { ...about, errorCode });
    },
    automationCompleted: nothing,
    automationFailed: nothing,
    publish: nothing,
    messageReceived: nothing,
  };
  const messaging = createMessaging({ world, clock, ids, random, speed, publisher });
  const account = world.accounts.get("main") ?? addAccount(world, "main");
  const template = world.templates.list("main")[0] ?? addTemplate(world, ids(), {});
  /** The answer refused with, as `status` and `error`. */
  const refusal = (act: () => unknown): { status: number; error: unknown; body: ApiFault["body"] } => {
    try {
      act();
    } catch (error) {
      if (error instanceof ApiFault) return { status: error.status, error: error.body.error, body: error.body };
      throw error;
    }
    throw new Error("nothing was refused");
  };
  return {
    world,
    clock,
    ids,
    random,
    messaging,
    account,
    template,
    published,
    refusal,
    /** A template message by the API. */
    send: (to: string) => messaging.send("main", { to, template: { id: template.id } }, "api"),
    statuses: (wamid: string) => published.filter((event) => event.wamid === wamid).map(({ status }) => status),
  };
}

export function addAccount(world: World, name: string): AccountRecord {
  const account: AccountRecord = {
    id: name,
    account: name,
    createdAt: start,
    plan: "escala",
    contactLimit: null,
    isConnected: true,
    numbers: [{ phoneNumberId: `${name}-1`, phone: "+541150000001", isConnected: true }],
    usage: { month: "2026-11", apiCalls: 0, webhookDeliveries: 0, automationSteps: 0, automationRequests: 0 },
  };
  world.accounts.put(account);
  return account;
}

export function addTemplate(world: World, id: string, facts: Partial<TemplateRecord>): TemplateRecord {
  const template: TemplateRecord = {
    id,
    account: "main",
    createdAt: start,
    name: "Aviso",
    metaName: "aviso",
    language: "es_AR",
    category: "UTILITY",
    wabaId: "waba-1",
    body: "Hola {{nombre}}, tu pedido {{pedido}} está listo.",
    variables: [
      { name: "nombre", label: "Nombre", example: "Ana", fallback: "cliente" },
      { name: "pedido", label: "Pedido", example: "A-1" },
    ],
    status: "approved",
    ...facts,
  };
  world.templates.put(template);
  return template;
}
