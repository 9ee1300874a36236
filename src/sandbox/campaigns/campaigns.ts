import type { Clock } from "../../model/clock.ts";
import { ApiFault, invalid } from "../api/fault.ts";
import { requirePhone } from "../messaging/phone.ts";
import type { Messaging } from "../messaging/port.ts";
import { templateGone } from "../messaging/refusals.ts";
import { approvedTemplates, templateToSend } from "../messaging/templates.ts";
import type { Random } from "../random.ts";
import type { CampaignRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { firstPhoneOf, mostStrangers } from "./made-up-phones.ts";
import type { CampaignOrder, Campaigns } from "./port.ts";
import { createRecipients } from "./recipients.ts";

interface Parts {
  readonly world: World;
  readonly clock: Clock;
  readonly ids: () => string;
  readonly random: Random;
  readonly messaging: Pick<Messaging, "send">;
}

const usualPerSecond = 80;
/** Small batches, so that none holds up the API. */
const batchMs = 100;

/** Bulk sends. They go past the gate, so they count against no limit of the API ("Client guidance"). */
export function createCampaigns({ world, clock, ids, random, messaging }: Parts): Campaigns {
  const phoneRandom = random.fork("campaigns");
  const recipients = createRecipients({ world, ids });

  const sendTo = (to: string, campaign: CampaignRecord): void => {
    const { id, account, templateId } = campaign;
    campaign.sent += 1;
    try {
      messaging.send(account, { to, template: { id: templateId }, campaignId: id }, "campaign");
    } catch (error) {
      if (!(error instanceof ApiFault)) throw error;
      // Refused by the service or the provider: there is no message, and no event will come.
      campaign.failed += 1;
    }
  };
  const run = (campaign: CampaignRecord): void => {
    const perBatch = (campaign.perSecond * batchMs) / 1000;
    let due = Math.max(1, perBatch);
    const batch = (): void => {
      const size = Math.min(Math.floor(due), campaign.total - campaign.sent);
      due += perBatch - size;
      for (const phone of recipients.take(campaign, size)) sendTo(phone, campaign);
      if (campaign.sent < campaign.total) clock.after(batchMs, batch);
      world.campaigns.put(campaign);
    };
    if (campaign.sent < campaign.total) clock.after(0, batch);
  };
  return {
    start(account, order) {
      const phones = recipientsOf(order);
      const total = typeof phones === "number" ? phones : phones.length;
      const campaign: CampaignRecord = {
        id: ids(),
        account,
        createdAt: clock.now(),
        name: order.name,
        templateId: templateFor(world, account, order.templateId),
        total,
        perSecond: order.perSecond ?? usualPerSecond,
        firstPhone: typeof phones === "number" ? firstPhoneOf(total, phoneRandom) : null,
        sent: 0,
        deliveries: 0,
        reads: 0,
        replies: 0,
        failed: 0,
      };
      world.campaigns.put(campaign);
      if (typeof phones !== "number") recipients.add(campaign, phones);
      run(campaign);
      return campaign;
    },
    resume() {
      for (const campaign of world.campaigns.all()) run(campaign);
    },
  };
}

function templateFor(world: World, account: string, id: string | undefined): string {
  const template = id === undefined ? approvedTemplates(world, account)[0] : templateToSend(world, account, id);
  if (template === undefined) throw templateGone();
  return template.id;
}

/** Each phone once, in the order given; or how many strangers. */
function recipientsOf({ phones, recipients, perSecond }: CampaignOrder): string[] | number {
  if ((phones === undefined) === (recipients === undefined)) {
    throw invalid([{ path: ["phones"], message: "Mandá exactamente uno de phones y recipients." }]);
  }
  if (perSecond !== undefined && !(perSecond > 0)) throw invalid([{ path: ["perSecond"], message: "Tiene que ser mayor que 0." }]);
  if (phones !== undefined) return [...new Set(phones.map(requirePhone))];
  if (recipients === undefined || !Number.isInteger(recipients) || recipients < 0 || recipients > mostStrangers) {
    throw invalid([{ path: ["recipients"], message: `Tiene que ser un entero de 0 a ${mostStrangers}.` }]);
  }
  return recipients;
}
