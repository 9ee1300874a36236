import type { Wamid } from "../../../../src/model/ids.ts";
import { type AutomationsParts, createAutomations } from "../../../../src/sandbox/automations/automations.ts";
import { createSandboxClock } from "../../../../src/sandbox/clock.ts";
import type { Publisher } from "../../../../src/sandbox/events/publisher.ts";
import { createGrowingIds, createRandom } from "../../../../src/sandbox/ids.ts";
import type { Messaging, OutgoingMessage } from "../../../../src/sandbox/messaging/messaging.ts";
import type {
  AccountRecord,
  AutomationRecord,
  AutomationStep,
  ConversationRecord,
  MessageRecord,
  Plan,
  RunRecord,
} from "../../../../src/sandbox/world/records.ts";
import { createWorld } from "../../../../src/sandbox/world/world.ts";
import { createManualClock, type ManualClock } from "../../../harness/manual-clock.ts";

export const phone = "+5491155550000";

export type Published =
  | { readonly event: "completed"; readonly runId: string }
  | { readonly event: "failed"; readonly runId: string; readonly error: string };

type Fate = readonly MessageRecord["status"][];

/** Automations beside played messaging, limits and publisher. Messages of the played messaging move only when a test moves them. */
export function createScene(options: { speed?: number; plan?: Plan; base?: ManualClock } = {}) {
  const base = options.base ?? createManualClock();
  const clock = createSandboxClock(base);
  const ids = createGrowingIds({ now: clock.now, random: createRandom("automations") });
  const world = createWorld({ changed: () => {} });
  const published: Published[] = [];
  const sent: OutgoingMessage[] = [];
  const spent = { automationSteps: 0, automationRequests: 0, webhookDeliveries: 0 };
  const quota = {
    automationSteps: Number.POSITIVE_INFINITY,
    automationRequests: Number.POSITIVE_INFINITY,
    webhookDeliveries: Number.POSITIVE_INFINITY,
  };
  /** What lies ahead of the next messages, and what the next send or contact throws. */
  const ahead: { fate: Fate; sendThrows: Error | null; contactThrows: Error | null } = {
    fate: ["sent", "delivered"],
    sendThrows: null,
    contactThrows: null,
  };
  const account: AccountRecord = {
    id: "main",
    account: "main",
    createdAt: clock.now(),
    plan: options.plan ?? "escala",
    contactLimit: null,
    isConnected: true,
    numbers: [],
    usage: { month: "2026-11", apiCalls: 0, webhookDeliveries: 0, automationSteps: 0, automationRequests: 0 },
  };
  world.accounts.put(account);

  const contactFor: Messaging["contactFor"] = (owner, to, facts) => {
    if (ahead.contactThrows !== null) throw ahead.contactThrows;
    const known = world.contacts.find(owner, to);
    if (known !== undefined) {
      return {
        conversation: world.conversations.get(known.conversationId) as ConversationRecord,
        contactId: known.id,
        isNew: false,
      };
    }
    const [contactId, conversationId] = [ids(), ids()];
    const owned = { account: owner, createdAt: clock.now() };
    world.contacts.put({ ...owned, id: contactId, phone: to, name: facts?.name ?? null, attributes: {}, conversationId });
    const conversation: ConversationRecord = {
      ...owned,
      id: conversationId,
      contactId,
      customerWroteAt: null,
      humanRepliedAt: null,
      runId: null,
    };
    world.conversations.put(conversation);
    return { conversation, contactId, isNew: true };
  };
  const never = () => {
    throw new Error("not played");
  };
  const messaging: Messaging = {
    contactFor,
    send(owner, message, origin) {
      if (ahead.sendThrows !== null) throw ahead.sendThrows;
      sent.push(message);
      const { conversation, contactId } = contactFor(owner, message.to);
      const record: MessageRecord = {
        id: ids(),
        account: owner,
        createdAt: clock.now(),
        wamid: `wamid.${sent.length}` as Wamid,
        origin,
        contactId,
        conversationId: conversation.id,
        phone: message.to,
        phoneNumberId: "1",
        text: message.text ?? "",
        templateId: message.template?.id ?? null,
        campaignId: null,
        status: "pending",
        statusAt: clock.now(),
        future: ahead.fate.map((status, at) => ({ at: clock.now() + 1000 * (at + 1), status })),
      };
      world.messages.put(record);
      return record;
    },
    receive: never,
    reply: never,
    setStatus: never,
    resume: () => {},
  };
  const publisher: Publisher = {
    messageStatus: never,
    publish: never,
    messageReceived: never,
    automationCompleted: (_, runId) => void published.push({ event: "completed", runId }),
    automationFailed: (_, runId, error) => void published.push({ event: "failed", runId, error }),
  };
  const limits: AutomationsParts["limits"] = {
    spend(_, what) {
      if (spent[what] >= quota[what]) return false;
      spent[what] += 1;
      return true;
    },
  };
  const parts: AutomationsParts = { world, clock, ids, messaging, publisher, limits, baseClock: base, speed: options.speed ?? 1 };
  const automations = createAutomations(parts);

  const automation = (steps: AutomationStep[], more: Partial<AutomationRecord> = {}): AutomationRecord => {
    const record: AutomationRecord = {
      id: ids(),
      account: "main",
      createdAt: clock.now(),
      name: "bienvenida",
      status: "published",
      trigger: "manual",
      token: "ats_secreto",
      hookId: ids(),
      signature: { service: "acme" },
      steps,
      ...more,
    };
    world.automations.put(record);
    return record;
  };
  return {
    base,
    clock,
    world,
    account,
    messaging,
    limits,
    parts,
    automations,
    automation,
    published,
    sent,
    spent,
    quota,
    ahead,
    start: (steps: AutomationStep[], data: Record<string, string> = {}, to = phone): RunRecord =>
      automations.start("main", automation(steps), { phone: to, data }),
    conversation: (to = phone) => contactFor("main", to).conversation,
    lastMessage: () => world.messages.list("main").at(-1) as MessageRecord,
    /** Moves a message on, as messaging does, and says so. */
    move(message: MessageRecord, status: MessageRecord["status"], errorCode?: string | number) {
      message.status = status;
      if (errorCode !== undefined) message.errorCode = errorCode;
      while (message.future.some((step) => step.status === status)) message.future.shift();
      world.messages.put(message);
      automations.messageChanged(message);
    },
  };
}
