import type { z } from "zod";
import { createApiApp } from "./api/app.ts";
import { addApiRoutes, addHookRoutes } from "./api/routes.ts";
import { createAutomations } from "./automations/automations.ts";
import { createCampaigns } from "./campaigns/campaigns.ts";
import { addControlRoutes } from "./control/control.ts";
import type { ControlParts } from "./control/routes.ts";
import { createEvents } from "./events/events.ts";
import type { Publisher } from "./events/publisher.ts";
import { createLimits } from "./limits/limits.ts";
import { addMcpRoutes } from "./mcp/mcp.ts";
import type { Memory } from "./memory.ts";
import { createMessaging, type IncomingMessage } from "./messaging/messaging.ts";
import { addGraphRoutes } from "./meta/graph-routes.ts";
import type { SandboxOptions, sandboxOptionsSchema } from "./options.ts";
import type { ContactRecord, MessageRecord } from "./world/records.ts";

interface Parts extends Pick<ControlParts, "baseClock" | "setup" | "faults" | "url" | "defaultPlan" | "callbacks"> {
  readonly memory: Memory;
  readonly settings: z.output<typeof sandboxOptionsSchema>;
  readonly failed: (error: unknown) => void;
  readonly onPost: SandboxOptions["onPost"];
}

export function assemble({ memory, settings, failed, onPost, ...parts }: Parts) {
  const { world, clock, ids, random } = memory;
  const { speed, isUnlimited } = settings;
  const { baseClock, faults, callbacks } = parts;
  const limits = createLimits({ world, clock, isUnlimited });
  const events = createEvents({
    world,
    clock,
    baseClock,
    ids,
    random,
    limits,
    faults: () => faults.current.events,
    speed,
    metaFaults: callbacks === null ? null : () => faults.current.meta,
    onPost,
  });
  const publisher: Publisher = {
    ...events.publisher,
    messageStatus(message) {
      events.publisher.messageStatus(message);
      automations.messageChanged(message);
    },
  };
  const messaging = createMessaging({ world, clock, ids, random, speed, publisher });
  const campaigns = createCampaigns({ world, clock, ids, random, messaging });
  const automations = createAutomations({ world, clock, baseClock, ids, messaging, publisher, limits, speed });

  const customerWrites = (account: string, from: IncomingMessage): MessageRecord => {
    const message = messaging.receive(account, from);
    publisher.messageReceived(message);
    automations.customerWrote(world.contacts.get(message.contactId) as ContactRecord, message.text);
    return message;
  };

  const answerAfter = events.meta?.answerAfter;
  const gate = { limits, random, faults: () => faults.current.api };
  const api = { world, limits, messaging, automations, answerAfter };
  const app = createApiApp({ ...gate, now: clock.now, failed, routes: (scope) => addApiRoutes(scope, api) });
  if (answerAfter !== undefined) addGraphRoutes(app, { world, gate, messaging, answerAfter, failed });
  addHookRoutes(app, api);
  addMcpRoutes(app, { world, limits, messaging });
  addControlRoutes(app, { ...parts, world, clock, limits, messaging, campaigns, customerWrites, events });
  return {
    app,
    customerWrites,
    events,
    resume() {
      for (const part of [messaging, campaigns, automations, events.posting]) part.resume();
    },
    async close() {
      callbacks?.close();
      events.meta?.flush();
      await app.close();
      await automations.close();
      await events.posting.close();
    },
  };
}
