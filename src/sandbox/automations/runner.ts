import { ApiFault, limitsOf } from "../api/fault.ts";
import type { SandboxClock } from "../clock.ts";
import type { Publisher } from "../events/port.ts";
import type { Limits } from "../limits/limits.ts";
import type { Messaging, OutgoingMessage } from "../messaging/port.ts";
import type { AccountRecord, AutomationRecord, AutomationStep, ConversationRecord, MessageRecord, RunRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { fillBody, fillText, fillVariables } from "./fill.ts";
import { isWithHuman } from "./human-reply.ts";
import { deliveryOf, failureText } from "./message-delivery.ts";
import type { SignedRequests } from "./signed-requests.ts";

/** A step begins so long after the one before ended, at speed 1: the sandbox's choice. */
const betweenStepsMs = 100;

type Step<T extends AutomationStep["type"]> = Extract<AutomationStep, { type: T }>;

export interface RunnerParts {
  readonly world: World;
  readonly clock: SandboxClock;
  readonly ids: () => string;
  readonly messaging: Messaging;
  readonly publisher: Publisher;
  readonly limits: Limits;
  readonly requests: SignedRequests;
  /** Divides waits. */
  readonly speed: number;
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
export function createRunner({ world, clock, ids, messaging, publisher, limits, requests, speed }: RunnerParts) {
  const conversationOf = (run: RunRecord) => world.conversations.get(run.conversationId) as ConversationRecord;

  const end = (run: RunRecord, error: string | null): void => {
    if (run.status !== "running") return;
    run.status = error === null ? "completed" : "failed";
    run.error = error;
    run.messageId = null;
    world.runs.put(run);
    const conversation = conversationOf(run);
    if (conversation.runId === run.id) {
      conversation.runId = null;
      world.conversations.put(conversation);
    }
    if (error === null) publisher.automationCompleted(run.account, run.id);
    else publisher.automationFailed(run.account, run.id, error);
  };
  const proceed = (run: RunRecord, waitMs = 0): void => {
    const ms = Math.round((betweenStepsMs + waitMs) / speed);
    run.messageId = null;
    run.nextAt = clock.now() + ms;
    world.runs.put(run);
    clock.after(ms, () => doNext(run));
  };
  const followMessage = (run: RunRecord, message: MessageRecord): void => {
    const delivery = deliveryOf(message);
    if (delivery === "failed") end(run, failureText(message));
    else if (delivery === "left") proceed(run);
    else {
      run.messageId = message.id;
      world.runs.put(run);
    }
  };

  const send = (run: RunRecord, step: Step<"send">): void => {
    if (isWithHuman(conversationOf(run), clock.now())) {
      // The sandbox's choice: the run says that it could not send, rather than skip its message and look completed.
      end(run, "Alguien del equipo respondió en el chat: las automatizaciones no responden ahí durante 24 horas.");
      return;
    }
    let message: MessageRecord;
    try {
      message = messaging.send(run.account, outgoing(run, step), "automation");
    } catch (error) {
      end(run, textOf(error));
      return;
    }
    run.left.shift();
    followMessage(run, message);
  };
  const outgoing = (run: RunRecord, step: Step<"send">): OutgoingMessage => {
    const to = world.contacts.get(run.contactId)?.phone as string;
    if ("text" in step) return { to, text: fillText(step.text, run.data) };
    return { to, template: { id: step.templateId, variables: fillVariables(step.variables ?? {}, run.data) } };
  };
  const ask = (run: RunRecord, step: Step<"request">): void => {
    const account = accountOf(run);
    if (!limits.spend(account, "automationRequests")) {
      end(run, usedUp("pedidos HTTP de automatizaciones", limitsOf(account.plan).automationRequests));
      return;
    }
    const automation = world.automations.get(run.automationId) as AutomationRecord;
    void requests.post(automation, step.url, fillBody(step.body, run.data), ids()).then((outcome) => {
      if (outcome === "closed" || run.status !== "running") return;
      if (outcome === "unsigned") {
        end(run, "No se pudo firmar el pedido HTTP: el token no es una clave para la firma de la automatización.");
        return;
      }
      // An exit that leads nowhere goes on with the next step: the sandbox's choice.
      run.left.splice(0, 1, ...((outcome === "success" ? step.onSuccess : step.onError) ?? []));
      proceed(run);
    });
  };
  const accountOf = (run: RunRecord) => world.accounts.get(run.account) as AccountRecord;

  const doNext = (run: RunRecord): void => {
    if (run.status !== "running") return;
    const [step] = run.left;
    if (step === undefined) {
      end(run, null);
      return;
    }
    const account = accountOf(run);
    if (!limits.spend(account, "automationSteps")) {
      end(run, usedUp("pasos de automatizaciones", limitsOf(account.plan).steps));
      return;
    }
    switch (step.type) {
      case "send":
        send(run, step);
        break;
      case "wait":
        run.left.shift();
        proceed(run, step.ms);
        break;
      case "request":
        ask(run, step);
        break;
      case "fail":
        end(run, fillText(step.error, run.data));
        break;
    }
  };
  return {
    /** Begins a new run. */
    begin: (run: RunRecord): void => proceed(run),
    /** Takes a run of a state file up where it was. */
    resume(run: RunRecord): void {
      const message = run.messageId === null ? undefined : world.messages.get(run.messageId);
      if (message !== undefined) followMessage(run, message);
      else clock.after(run.nextAt - clock.now(), () => doNext(run));
    },
    messageChanged(message: MessageRecord): void {
      if (message.origin !== "automation") return;
      const runId = world.conversations.get(message.conversationId)?.runId ?? null;
      const run = runId === null ? undefined : world.runs.get(runId);
      // A message older than the run is of a run before it.
      if (run === undefined || message.id < run.id) return;
      if (message.status === "failed") end(run, failureText(message));
      else if (run.messageId === message.id) followMessage(run, message);
    },
  };
}

function usedUp(what: string, limit: number | null): string {
  return `La cuenta usó los ${limit} ${what} que su plan permite por mes. Se renuevan el día 1.`;
}

/** What a refused send says. */
function textOf(error: unknown): string {
  if (!(error instanceof ApiFault)) throw error;
  const said = error.body["error"];
  return typeof said === "string" ? said : String((said as { message?: unknown } | undefined)?.message ?? error.message);
}
