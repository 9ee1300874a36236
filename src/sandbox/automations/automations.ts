import type { Clock } from "../../model/clock.ts";
import { refused } from "../api/fault.ts";
import type { AutomationRecord, ConversationRecord, MessageRecord, RunRecord } from "../world/records.ts";
import { createRunner, createSignedRequests, isWithHuman, type RunnerParts } from "./runner.ts";

export interface AutomationsParts extends Omit<RunnerParts, "requests"> {
  readonly baseClock: Clock;
}

export type Automations = ReturnType<typeof createAutomations>;

/** Who may start a run, and one run at a time per conversation ("Conversation rules"). Methods throw ApiFault. */
export function createAutomations(parts: AutomationsParts) {
  const { world, clock, ids, messaging, baseClock } = parts;
  const requests = createSignedRequests(baseClock);
  const runner = createRunner({ ...parts, requests });

  const begin = (automation: AutomationRecord, conversation: ConversationRecord, data: Readonly<Record<string, string>>): RunRecord => {
    const now = clock.now();
    const run: RunRecord = {
      id: ids(),
      account: automation.account,
      createdAt: now,
      automationId: automation.id,
      contactId: conversation.contactId,
      conversationId: conversation.id,
      data: { ...data },
      status: "running",
      error: null,
      // A run keeps the steps that it began with.
      left: structuredClone(automation.steps),
      nextAt: now,
      messageId: null,
    };
    conversation.runId = run.id;
    world.conversations.put(conversation);
    runner.begin(run);
    return run;
  };
  return {
    start(
      account: string,
      automation: AutomationRecord,
      { phone, name, data }: { readonly phone: string; readonly name?: string; readonly data: Readonly<Record<string, string>> },
    ): RunRecord {
      if (automation.status === "draft") throw refused(409, "La automatización no está publicada.");
      if (automation.status === "paused") throw refused(409, "La automatización está pausada.");
      const { conversation } = messaging.contactFor(account, phone, name === undefined ? {} : { name });
      if (conversation.runId !== null) throw refused(409, "La conversación ya tiene una automatización en curso.");
      // The sandbox's choice: while a human answers, a run starts, and fails at its first message.
      return begin(automation, conversation, data);
    },
    customerWrote(account: string, conversation: ConversationRecord, message: MessageRecord): void {
      if (conversation.runId !== null || isWithHuman(conversation, clock.now())) return;
      // The sandbox's choice: the oldest of several.
      const automation = world.automations
        .list(account)
        .find(({ trigger, status }) => trigger === "customer-message" && status === "published");
      if (automation !== undefined) begin(automation, conversation, { text: message.text });
    },
    /** To be called for each change of a status. */
    messageChanged: runner.messageChanged,
    resume() {
      for (const run of world.runs.all()) if (run.status === "running") runner.resume(run);
    },
    close: requests.close,
  };
}
