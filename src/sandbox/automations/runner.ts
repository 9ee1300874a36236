import { Agent } from "undici/index.js";
import type { Clock } from "../../model/clock.ts";
import { ApiFault, limitsOf } from "../api/fault.ts";
import type { SandboxClock } from "../clock.ts";
import type { Publisher } from "../events/publisher.ts";
import type { Limits } from "../limits/limits.ts";
import type { Messaging, OutgoingMessage } from "../messaging/messaging.ts";
import { postJson, receiverConnection } from "../post.ts";
import { createSigner } from "../signing.ts";
import { reaches } from "../statuses.ts";
import type { AccountRecord, AutomationRecord, AutomationStep, ConversationRecord, MessageRecord, RunRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";

/** The sandbox's choice, at speed 1. */
const betweenStepsMs = 100;

type Step<T extends AutomationStep["type"]> = Extract<AutomationStep, { type: T }>;

export interface RunnerParts {
  readonly world: World;
  readonly clock: SandboxClock;
  readonly ids: () => string;
  readonly messaging: Messaging;
  readonly publisher: Publisher;
  readonly limits: Pick<Limits, "spend">;
  readonly requests: ReturnType<typeof createSignedRequests>;
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
      // The sandbox's choice: the run fails, rather than skip its message and look completed.
      end(run, "Alguien del equipo respondió en el chat: las automatizaciones no responden ahí durante 24 horas.");
      return;
    }
    let message: MessageRecord;
    try {
      message = messaging.send(run.account, outgoing(world.contacts.get(run.contactId)?.phone as string, run, step), "automation");
    } catch (error) {
      end(run, textOf(error));
      return;
    }
    run.left.shift();
    followMessage(run, message);
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
      // The sandbox's choice: an exit that leads nowhere goes on with the next step.
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
    begin: (run: RunRecord): void => proceed(run),
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

function outgoing(to: string, { data }: RunRecord, step: Step<"send">): OutgoingMessage {
  if ("text" in step) return { to, text: fillText(step.text, data) };
  return { to, template: { id: step.templateId, variables: fillVariables(step.variables ?? {}, data) } };
}

function usedUp(what: string, limit: number | null): string {
  return `La cuenta usó los ${limit} ${what} que su plan permite por mes. Se renuevan el día 1.`;
}

function textOf(error: unknown): string {
  if (!(error instanceof ApiFault)) throw error;
  const said = error.body["error"];
  return typeof said === "string" ? said : String((said as { message?: unknown } | undefined)?.message ?? error.message);
}

/**
 * The sandbox's choice. A message that has left may still be bound to fail, and its run must not end as completed: a failure to come
 * is waited for. A message that stays pending holds up nothing.
 */
function deliveryOf({ status, future }: MessageRecord): "left" | "failed" | "open" {
  if (status === "failed") return "failed";
  if (status !== "pending" && status !== "sent") return "left";
  const hasLeft = reaches(status, "sent");
  return future.some((step) => !hasLeft || step.status === "failed") ? "open" : "left";
}

function failureText({ errorCode }: MessageRecord): string {
  if (String(errorCode) === "131026") return "El teléfono no tiene una cuenta en la red (código 131026).";
  return `El mensaje no se pudo entregar${errorCode === undefined ? "" : ` (código ${errorCode})`}.`;
}

const day = 24 * 60 * 60_000;

/** A human colleague replied within the last 24 hours, so automations keep still ("Conversation rules"). */
export function isWithHuman({ humanRepliedAt }: ConversationRecord, now: number): boolean {
  return humanRepliedAt !== null && now - humanRepliedAt < day;
}

type RunData = RunRecord["data"];

/** Blanks are trimmed afterwards: `\s*` here would take cubic time on many of them. */
const variable = /\{\{([^{}]+)\}\}/g;

/** The sandbox's choice: a name that the data does not have leaves nothing. */
export function fillText(text: string, data: RunData): string {
  return text.replace(variable, (_, padded: string) => {
    const name = padded.trim();
    return Object.hasOwn(data, name) ? (data[name] as string) : "";
  });
}

/** Text that is a JSON object or list is one: values are escaped, so that they cannot change its structure. */
export function fillBody(body: unknown, data: RunData): unknown {
  if (typeof body !== "string") return fillJson(body, data);
  const escaped = Object.fromEntries(Object.entries(data).map(([name, value]) => [name, JSON.stringify(value).slice(1, -1)]));
  try {
    const value: unknown = JSON.parse(fillText(body, escaped));
    if (typeof value === "object" && value !== null) return value;
  } catch {}
  return fillText(body, data);
}

export function fillJson(value: unknown, data: RunData): unknown {
  if (typeof value === "string") return fillText(value, data);
  if (Array.isArray(value)) return value.map((item) => fillJson(item, data));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fillJson(item, data)]));
}

/** Variables that come out empty are left out, so that the contact's data or the fallback takes their place. */
function fillVariables(variables: Readonly<Record<string, string>>, data: RunData): Record<string, string> {
  const filled = Object.entries(variables).map(([name, text]) => [name, fillText(text, data)] as const);
  return Object.fromEntries(filled.filter(([, text]) => text !== ""));
}

/** messaging-service-api.md, "Other constants". */
const answerWithinMs = 10_000;

/** `clock` is the machine's: the receiver lives in the machine's time. */
export function createSignedRequests(clock: Clock) {
  // Connections have no limit: a request that waits for one would use up its receiver's seconds.
  const agent = new Agent(receiverConnection());
  let closed = false;

  /** `unsigned`: the token does not fit the automation's signature; `closed`: the sandbox stopped first. */
  const post = async (automation: AutomationRecord, url: string, value: unknown, id: string) => {
    if (closed) return "closed" as const;
    const body = Buffer.from(JSON.stringify(value ?? null));
    let headers: Record<string, string>;
    try {
      headers = createSigner(automation.signature, automation.token)({ method: "POST", url, body, id, timestampMs: clock.now() });
    } catch {
      return "unsigned" as const;
    }
    const answer = await postJson({ dispatcher: agent, url, headers, body, clock, timeoutMs: answerWithinMs });
    if (closed) return "closed" as const;
    // An answer whose body drips past the deadline is late.
    const isSuccess = answer.kind === "answered" && answer.isWhole && answer.status >= 200 && answer.status < 300;
    return isSuccess ? ("success" as const) : ("error" as const);
  };
  return {
    post,
    async close(): Promise<void> {
      closed = true;
      await agent.destroy();
    },
  };
}
