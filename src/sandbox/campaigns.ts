import { z } from "zod";
import { ApiFault } from "./api/fault.ts";
import type { Random } from "./ids.ts";
import { requirePhone } from "./messaging/lives.ts";
import {
  approvedTemplates,
  type Messaging,
  templateGone,
  templateToSend,
} from "./messaging/messaging.ts";
import type { CampaignRecord, Core } from "./world.ts";

const most = 1_000_000;

export const campaignOrder = z
  .strictObject({
    name: z.string().min(1).max(200),
    templateId: z.string().optional(),
    phones: z.array(z.string()).min(1).max(most).optional(),
    recipients: z.number().int().min(0).max(most).optional(),
    perSecond: z.number().positive().max(10_000).default(80),
  })
  .refine(
    ({ phones, recipients }) => (phones === undefined) !== (recipients === undefined),
    "needs phones or recipients, not both",
  );
type CampaignOrder = z.output<typeof campaignOrder>;

/** Small batches, so that none holds up the API. */
const batchMs = 100;

export function createCampaigns({ world, clock, owned, random }: Core, messaging: Messaging) {
  const phoneRandom = random.fork("campaigns");

  const sendTo = (to: string, campaign: CampaignRecord): void => {
    const { id, account, templateId } = campaign;
    campaign.sent += 1;
    try {
      messaging.send(account, { to, template: { id: templateId }, campaignId: id }, "campaign");
    } catch (error) {
      if (!(error instanceof ApiFault)) throw error;
      campaign.failed += 1;
    }
  };
  const run = (campaign: CampaignRecord): void => {
    const phones = world.recipients.get(campaign.id)?.phones;
    if (phones === undefined) return;
    const perBatch = (campaign.perSecond * batchMs) / 1000;
    let due = Math.max(1, perBatch);
    const batch = (): void => {
      const size = Math.min(Math.floor(due), campaign.total - campaign.sent);
      due += perBatch - size;
      for (const phone of phones.slice(campaign.sent, campaign.sent + size))
        sendTo(phone, campaign);
      if (campaign.sent < campaign.total) clock.after(batchMs, batch);
      else world.recipients.delete(campaign.id);
      world.campaigns.put(campaign);
    };
    clock.after(0, batch);
  };
  return {
    start(account: string, order: CampaignOrder): CampaignRecord {
      const { name, templateId: wanted, perSecond } = order;
      const phones = phonesOf(order, phoneRandom);
      const template =
        wanted === undefined
          ? approvedTemplates(world, account)[0]
          : templateToSend(world, account, wanted);
      if (template === undefined) throw templateGone();
      const own = owned(account);
      const totals = {
        total: phones.length,
        sent: 0,
        deliveries: 0,
        reads: 0,
        replies: 0,
        failed: 0,
      };
      const campaign: CampaignRecord = world.campaigns.put({
        ...own,
        name,
        templateId: template.id,
        perSecond,
        ...totals,
      });
      if (phones.length > 0) world.recipients.put({ ...own, phones });
      run(campaign);
      return campaign;
    },
    resume(): void {
      for (const campaign of world.campaigns.all()) run(campaign);
    },
  };
}

/**
 * Strangers' phones follow each other, so that in 10,000 each number with a fixed outcome comes
 * once.
 */
function phonesOf({ phones, recipients = 0 }: CampaignOrder, random: Random): string[] {
  if (phones !== undefined) return [...new Set(phones.map(requirePhone))];
  const first = random.below(10 ** 8 - recipients + 1);
  return Array.from(
    { length: recipients },
    (_, place) => `+54911${String(first + place).padStart(8, "0")}`,
  );
}
