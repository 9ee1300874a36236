import { createAutomations } from "./automations.ts";
import { createCampaigns } from "./campaigns.ts";
import { createEvents, type EventsSettings } from "./events/events.ts";
import type { Publisher } from "./events/publisher.ts";
import type { FaultSettings } from "./faults.ts";
import { createLimits } from "./limits.ts";
import { createMessaging, type IncomingMessage } from "./messaging/messaging.ts";
import type { ContactRecord, Core, MessageRecord } from "./world.ts";

interface Settings {
  readonly isUnlimited: boolean;
  readonly format: "standard" | "meta";
  readonly faults: { current: FaultSettings };
  readonly onPost: EventsSettings["onPost"];
}

export type Service = ReturnType<typeof createService>;

export function createService(core: Core, { isUnlimited, format, faults, onPost }: Settings) {
  const limits = createLimits(core, isUnlimited);
  const metaFaults = format === "meta" ? () => faults.current.meta : null;
  const events = createEvents(core, {
    limits,
    faults: () => faults.current.events,
    metaFaults,
    onPost,
  });
  const publisher: Publisher = {
    ...events.publisher,
    messageStatus(message) {
      events.publisher.messageStatus(message);
      automations.messageChanged(message);
    },
  };
  const messaging = createMessaging(core, publisher);
  const campaigns = createCampaigns(core, messaging);
  const automations = createAutomations(core, { messaging, publisher, limits });
  return {
    ...core,
    faults,
    limits,
    events,
    messaging,
    campaigns,
    automations,
    customerWrites(account: string, from: IncomingMessage): MessageRecord {
      const message = messaging.receive(account, from);
      publisher.messageReceived(message);
      automations.customerWrote(
        core.world.contacts.get(message.contactId) as ContactRecord,
        message.text,
      );
      return message;
    },
    resume() {
      for (const part of [messaging, campaigns, automations, events.posting]) part.resume();
    },
    async close() {
      await automations.close();
      await events.posting.close();
    },
  };
}
