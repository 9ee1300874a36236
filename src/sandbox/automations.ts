import { ApiFault, refused } from "./api/fault.ts";
import type { Publisher } from "./events/publisher.ts";
import type { Limits } from "./limits.ts";
import { fillPlaces, type Messaging, own } from "./messaging/messaging.ts";
import { createReceivers } from "./post.ts";
import { createSigner } from "./signing.ts";
import {
  type AutomationRecord,
  type AutomationStep,
  accountOf,
  type ContactRecord,
  type Core,
  type MessageRecord,
  plans,
  type RunRecord,
} from "./world.ts";

const betweenStepsMs = 100;
const answerWithinMs = 10_000;
const day = 24 * 60 * 60_000;

type Step<T extends AutomationStep["type"]> = Extract<AutomationStep, { type: T }>;

interface Parts {
  readonly messaging: Messaging;
  readonly publisher: Publisher;
  readonly limits: Limits;
}

/**
 * Who may start a run, and one run at a time per conversation ("Conversation rules"). Methods throw
 * ApiFault.
 */
export function createAutomations(core: Core, parts: Parts) {
  const { world, clock, owned } = core;
  const { messaging } = parts;
  const runner = createRunner(core, parts);

  const begin = (
    { id: automationId, account, steps }: AutomationRecord,
    contact: ContactRecord,
    data: RunRecord["data"],
  ): RunRecord => {
    const state = { status: "running", error: null, nextAt: clock.now(), messageId: null } as const;
    // A run keeps the steps that it began with.
    const of = { automationId, contactId: contact.id, data };
    const run = world.runs.put({
      ...owned(account),
      ...of,
      left: structuredClone(steps),
      ...state,
    });
    world.contacts.update(contact, { runId: run.id });
    runner.proceed(run);
    return run;
  };
  return {
    start(
      automation: AutomationRecord,
      { phone, name, data }: { phone: string; name?: string | undefined; data: RunRecord["data"] },
    ): RunRecord {
      if (automation.status === "draft") throw refused(409, "La automatización no está publicada.");
      if (automation.status === "paused") throw refused(409, "La automatización está pausada.");
      const { contact } = messaging.contactFor(automation.account, phone, { name });
      if (contact.runId !== null)
        throw refused(409, "La conversación ya tiene una automatización en curso.");
      return begin(automation, contact, data);
    },
    customerWrote(contact: ContactRecord, text: string): void {
      if (contact.runId !== null || isWithHuman(contact, clock.now())) return;
      const automation = world.automations
        .list(contact.account)
        .find(({ trigger, status }) => trigger === "customer-message" && status === "published");
      if (automation !== undefined) begin(automation, contact, { text });
    },
    messageChanged: runner.messageChanged,
    resume() {
      for (const run of world.runs.all()) if (run.status === "running") runner.resume(run);
    },
    close: runner.close,
  };
}

/**
 * Takes runs through their steps, one at a time:
 *
 * | the run is | until |
 * |---|---|
 * | due at `nextAt` | the clock says so: the first step of `left` is done |
 * | waiting for `messageId` | that message left or failed |
 * | waiting for a receiver | it answered or is late; the step stays in `left`, so a restart repeats it |
 * | `completed` or `failed` | final |
 */
function createRunner(
  { world, clock, baseClock, ids, speed }: Core,
  { messaging, publisher, limits }: Parts,
) {
  // Connections have no limit: a request that waits for one would use up its receiver's seconds.
  const receivers = createReceivers({ clock: baseClock, timeoutMs: answerWithinMs });
  let isClosed = false;
  const contactOf = (run: RunRecord) => world.contacts.get(run.contactId) as ContactRecord;

  const end = (run: RunRecord, error: string | null): void => {
    if (run.status !== "running") return;
    world.runs.update(run, {
      status: error === null ? "completed" : "failed",
      error,
      messageId: null,
    });
    world.contacts.update(contactOf(run), { runId: null });
    publisher.runEnded(run);
  };
  const proceed = (run: RunRecord, waitMs = 0): void => {
    const ms = Math.round((betweenStepsMs + waitMs) / speed);
    world.runs.update(run, { messageId: null, nextAt: clock.now() + ms });
    clock.after(ms, () => doNext(run));
  };
  const followMessage = (run: RunRecord, message: MessageRecord) => {
    const delivery = deliveryOf(message);
    if (delivery === "failed") return end(run, failureText(message));
    if (delivery === "left") return proceed(run);
    world.runs.update(run, { messageId: message.id });
  };

  const send = (run: RunRecord, step: Step<"send">) => {
    const { account, data } = run;
    const contact = contactOf(run);
    if (isWithHuman(contact, clock.now()))
      return end(
        run,
        "Alguien del equipo respondió en el chat: las automatizaciones no responden ahí durante 24 horas.",
      );
    const content =
      "text" in step
        ? { text: fillText(step.text, data) }
        : {
            template: { id: step.templateId, variables: fillVariables(step.variables ?? {}, data) },
          };
    try {
      const message = messaging.send(account, { to: contact.phone, ...content }, "automation");
      run.left.shift();
      followMessage(run, message);
    } catch (error) {
      if (!(error instanceof ApiFault)) throw error;
      end(run, error.message);
    }
  };
  const ask = async (
    run: RunRecord,
    { url, body: authored, onSuccess, onError }: Step<"request">,
  ): Promise<void> => {
    const { signature, token } = world.automations.get(run.automationId) as AutomationRecord;
    const body = Buffer.from(JSON.stringify(fillBody(authored, run.data)));
    const headers = createSigner(
      signature,
      token,
    )({ method: "POST", url, body, id: ids(), timestampMs: baseClock.now() });
    const answer = await receivers.call(url, headers, body);
    if (isClosed || run.status !== "running") return;
    // An answer whose body drips past the deadline is late.
    const isSuccess =
      answer.kind === "answered" &&
      answer.text !== null &&
      answer.status >= 200 &&
      answer.status < 300;
    run.left.splice(0, 1, ...((isSuccess ? onSuccess : onError) ?? []));
    proceed(run);
  };

  const doNext = (run: RunRecord) => {
    if (run.status !== "running") return;
    const [step] = run.left;
    if (step === undefined) return end(run, null);
    const account = accountOf(world, run.account);
    const most = plans[account.plan];
    if (!limits.spend(account, "automationSteps"))
      return end(run, usedUp("pasos de automatizaciones", most.automationSteps));
    switch (step.type) {
      case "send":
        return send(run, step);
      case "wait":
        run.left.shift();
        return proceed(run, step.ms);
      case "request":
        if (limits.spend(account, "automationRequests")) void ask(run, step);
        else end(run, usedUp("pedidos HTTP de automatizaciones", most.automationRequests));
        return;
      case "fail":
        return end(run, fillText(step.error, run.data));
    }
  };
  return {
    proceed,
    resume(run: RunRecord): void {
      const message = run.messageId === null ? undefined : world.messages.get(run.messageId);
      if (message !== undefined) followMessage(run, message);
      else clock.after(run.nextAt - clock.now(), () => doNext(run));
    },
    messageChanged(message: MessageRecord): void {
      if (message.origin !== "automation") return;
      const run = world.runs.get(world.contacts.get(message.contactId)?.runId ?? "");
      // A message older than the run is of a run before it.
      if (run === undefined || message.id < run.id) return;
      if (message.status === "failed") end(run, failureText(message));
      else if (run.messageId === message.id) followMessage(run, message);
    },
    close(): Promise<void> {
      isClosed = true;
      return receivers.close();
    },
  };
}

function usedUp(what: string, limit: number): string {
  return `La cuenta usó los ${limit} ${what} que su plan permite por mes. Se renuevan el día 1.`;
}

/**
 * A failure to come is waited for, so that its run does not end as completed. What stays pending
 * holds up nothing.
 */
function deliveryOf({ status, future }: MessageRecord): "left" | "failed" | "open" {
  if (status === "failed") return "failed";
  const awaits = future.some(
    (step) => status === "pending" || (status === "sent" && step.status === "failed"),
  );
  return awaits ? "open" : "left";
}

function failureText({ errorCode }: MessageRecord): string {
  if (String(errorCode) === "131026")
    return "El teléfono no tiene una cuenta en la red (código 131026).";
  return `El mensaje no se pudo entregar${errorCode === undefined ? "" : ` (código ${errorCode})`}.`;
}

function isWithHuman({ humanRepliedAt }: ContactRecord, now: number): boolean {
  return humanRepliedAt !== null && now - humanRepliedAt < day;
}

type RunData = RunRecord["data"];

export const fillText = (text: string, data: RunData): string =>
  fillPlaces(text, (name) => own(data, name) ?? "");

/**
 * Text that is a JSON object or list is one: values are escaped, so that they cannot change its
 * structure.
 */
export function fillBody(body: unknown, data: RunData): unknown {
  if (typeof body !== "string") return fillJson(body, data);
  const escaped = Object.fromEntries(
    Object.entries(data).map(([name, value]) => [name, JSON.stringify(value).slice(1, -1)]),
  );
  try {
    const value: unknown = JSON.parse(fillText(body, escaped));
    if (typeof value === "object" && value !== null) return value;
  } catch {}
  return fillText(body, data);
}

function fillJson(value: unknown, data: RunData): unknown {
  return JSON.parse(JSON.stringify(value ?? null), (_, each) =>
    typeof each === "string" ? fillText(each, data) : each,
  );
}

/**
 * Variables that come out empty are left out, so that the contact's data or the fallback takes
 * their place.
 */
function fillVariables(
  variables: Readonly<Record<string, string>>,
  data: RunData,
): Record<string, string> {
  const filled = Object.entries(variables).map(
    ([name, text]) => [name, fillText(text, data)] as const,
  );
  return Object.fromEntries(filled.filter(([, text]) => text !== ""));
}
