import type { FastifyInstance } from "fastify";
import { createApiApp } from "./api/app.ts";
import {
  addCampaignsRoutes,
  addContactsRoutes,
  addHookRoutes,
  addMeRoutes,
  addMessagesRoutes,
  addRunsRoutes,
  addTemplatesRoutes,
} from "./api/routes.ts";
import { createAutomations } from "./automations/automations.ts";
import { createCampaigns } from "./campaigns/campaigns.ts";
import type { ClockControls, SandboxClock } from "./clock.ts";
import { addControlRoutes } from "./control/control.ts";
import type { ControlParts } from "./control/routes.ts";
import { createEvents } from "./events/events.ts";
import type { ObservedPost } from "./events/poster.ts";
import type { Posting } from "./events/posting.ts";
import type { Publisher } from "./events/publisher.ts";
import type { Random } from "./ids.ts";
import { createLimits } from "./limits/limits.ts";
import { addMcpRoutes } from "./mcp/mcp.ts";
import { createMessaging, type IncomingMessage } from "./messaging/messaging.ts";
import { addGraphRoutes } from "./meta/graph-routes.ts";
import type { MessageRecord } from "./world/records.ts";

export interface AssemblyParts extends Omit<ControlParts, Assembled | "clock"> {
  readonly clock: SandboxClock;
  readonly clockControls: ClockControls;
  readonly ids: () => string;
  readonly random: Random;
  readonly speed: number;
  readonly isUnlimited: boolean;
  readonly failed: (error: unknown) => void;
  readonly onPost: ((post: ObservedPost) => void) | undefined;
}
type Assembled = "limits" | "messaging" | "campaigns" | "customerWrites" | "publisher" | "posting" | "forgetBlocks" | "meta";

export interface Service {
  readonly app: FastifyInstance;
  customerWrites(account: string, from: IncomingMessage): MessageRecord;
  readonly posting: Posting;
  resume(): void;
  close(): Promise<void>;
}

export function assemble(parts: AssemblyParts): Service {
  const { world, clock, baseClock, ids, random, speed, isUnlimited, faults, failed, onPost, callbacks } = parts;
  const limits = createLimits({ world, clock, isUnlimited });
  const events = createEvents({
    world,
    clock,
    baseClock,
    ids,
    random,
    limits,
    faults: () => faults.get().events,
    speed,
    onError: failed,
    onPost,
    meta: callbacks === null ? undefined : () => faults.get().meta,
  });
  const { posting } = events;
  const answerAfter = events.meta?.early.before;
  const publisher: Publisher = {
    ...events.publisher,
    messageStatus(message) {
      events.publisher.messageStatus(message);
      automations.messageChanged(message);
    },
  };
  const messaging = createMessaging({ world, clock, ids, random, speed, publisher });
  const campaigns = createCampaigns({ world, clock, ids, random, messaging });
  const automations = createAutomations({ world, clock, ids, messaging, publisher, limits, baseClock, speed });

  const customerWrites: Service["customerWrites"] = (account, from) => {
    const message = messaging.receive(account, from);
    publisher.messageReceived(message);
    const conversation = world.conversations.of(account, message.conversationId);
    if (conversation !== undefined) automations.customerWrote(account, conversation, message);
    return message;
  };

  const app = createApiApp({
    now: clock.now,
    limits,
    random,
    failed,
    faults: () => faults.get().api,
    routes(api) {
      addMessagesRoutes(api, { world, messaging, answerAfter });
      addTemplatesRoutes(api, { world });
      addContactsRoutes(api, { world, messaging });
      addCampaignsRoutes(api, { world });
      addMeRoutes(api, { world });
      addRunsRoutes(api, { world, automations });
    },
  });
  if (answerAfter !== undefined) addGraphRoutes(app, { world, limits, random, faults: () => faults.get().api, messaging, answerAfter });
  addHookRoutes(app, { world, limits, automations });
  addMcpRoutes(app, { world, clock, messaging, isUnlimited });
  addControlRoutes(app, {
    ...parts,
    clock: parts.clockControls,
    limits,
    messaging,
    campaigns,
    customerWrites,
    publisher,
    posting,
    forgetBlocks: limits.forgetBlocks,
    meta: events.meta?.publisher ?? null,
  });
  return {
    app,
    customerWrites,
    posting,
    resume() {
      messaging.resume();
      campaigns.resume();
      automations.resume();
      posting.resume();
    },
    async close() {
      callbacks?.close();
      events.meta?.publisher.flush();
      await app.close();
      await automations.close();
      await posting.close();
    },
  };
}
