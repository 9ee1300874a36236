import type { MessageRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";

/** Keeps the totals of campaigns as their messages move ("deliveries, reads, replies per campaign"). */
export interface CampaignTotals {
  /** A message left for a contact. */
  messaged(message: MessageRecord): void;
  /** A message changed; `before` is how it was. */
  moved(message: MessageRecord, before: Readonly<MessageRecord>): void;
  /** A contact wrote: the first time after a campaign's message it is the reply to the last one. */
  replied(contactId: string): void;
  /** Finds out from the messages remembered who has not replied yet. */
  resume(): void;
}

export function createCampaignTotals(world: World): CampaignTotals {
  /** The last campaign that wrote to a contact who has not replied since. */
  const unanswered = new Map<string, string>();
  const messaged = ({ contactId, campaignId }: MessageRecord): void => {
    if (campaignId !== null) unanswered.set(contactId, campaignId);
  };
  return {
    messaged,
    moved(message, before) {
      const campaign = message.campaignId === null ? undefined : world.campaigns.get(message.campaignId);
      if (campaign === undefined) return;
      if (message.deliveredAt !== undefined && before.deliveredAt === undefined) campaign.deliveries += 1;
      if (message.readAt !== undefined && before.readAt === undefined) campaign.reads += 1;
      if (message.status === "failed" && before.status !== "failed") campaign.failed += 1;
      if (message.status !== "failed" && before.status === "failed") campaign.failed -= 1;
      world.campaigns.put(campaign);
    },
    replied(contactId) {
      const campaign = world.campaigns.get(unanswered.get(contactId) ?? "");
      unanswered.delete(contactId);
      if (campaign === undefined) return;
      campaign.replies += 1;
      world.campaigns.put(campaign);
    },
    resume() {
      for (const message of world.messages.all()) {
        if (message.origin === "customer") unanswered.delete(message.contactId);
        else messaged(message);
      }
    },
  };
}
