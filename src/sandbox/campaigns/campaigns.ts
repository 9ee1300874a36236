import type { Clock } from "../../model/clock.ts";
import { ApiFault, invalid } from "../api/fault.ts";
import type { Random } from "../ids.ts";
import type { Messaging } from "../messaging/messaging.ts";
import { requirePhone } from "../messaging/numbers.ts";
import { templateGone } from "../messaging/refusals.ts";
import { approvedTemplates, templateToSend } from "../messaging/templates.ts";
import type { CampaignRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";

/** Exactly one of `phones` and `recipients`, which is a number of strangers. */
export interface CampaignOrder {
  readonly name: string;
  readonly templateId?: string | undefined;
  readonly phones?: readonly string[] | undefined;
  readonly recipients?: number | undefined;
  readonly perSecond?: number | undefined;
}

export type Campaigns = ReturnType<typeof createCampaigns>;

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
const mostStrangers = 1_000_000;

/** Campaigns go past the gate, so they count against no limit of the API ("Client guidance"). */
export function createCampaigns({ world, clock, ids, random, messaging }: Parts) {
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
    // At its end, or from a state file of an earlier build, which kept them otherwise.
    if (phones === undefined) return;
    const perBatch = (campaign.perSecond * batchMs) / 1000;
    let due = Math.max(1, perBatch);
    const batch = (): void => {
      const size = Math.min(Math.floor(due), campaign.total - campaign.sent);
      due += perBatch - size;
      for (const phone of phones.slice(campaign.sent, campaign.sent + size)) sendTo(phone, campaign);
      if (campaign.sent < campaign.total) clock.after(batchMs, batch);
      else world.recipients.delete(campaign.id);
      world.campaigns.put(campaign);
    };
    clock.after(0, batch);
  };
  return {
    /** The messages follow in batches. Throws ApiFault. */
    start(account: string, order: CampaignOrder): CampaignRecord {
      const phones = phonesOf(order, phoneRandom);
      const campaign: CampaignRecord = {
        id: ids(),
        account,
        createdAt: clock.now(),
        name: order.name,
        templateId: templateFor(world, account, order.templateId),
        total: phones.length,
        perSecond: order.perSecond ?? usualPerSecond,
        sent: 0,
        deliveries: 0,
        reads: 0,
        replies: 0,
        failed: 0,
      };
      world.campaigns.put(campaign);
      const { id, createdAt, total } = campaign;
      if (total > 0) world.recipients.put({ id, account, createdAt, phones });
      run(campaign);
      return campaign;
    },
    resume(): void {
      for (const campaign of world.campaigns.all()) run(campaign);
    },
  };
}

function templateFor(world: World, account: string, id: string | undefined): string {
  const template = id === undefined ? approvedTemplates(world, account)[0] : templateToSend(world, account, id);
  if (template === undefined) throw templateGone();
  return template.id;
}

/** Strangers' phones follow each other, so that in 10,000 each number with a fixed outcome comes once. */
function phonesOf({ phones, recipients = 0 }: CampaignOrder, random: Random): string[] {
  if (phones !== undefined) return [...new Set(phones.map(requirePhone))];
  if (recipients > mostStrangers) {
    throw invalid([{ path: ["recipients"], message: `Tiene que ser un entero de 0 a ${mostStrangers}.` }]);
  }
  const first = random.below(10 ** 8 - recipients + 1);
  return Array.from({ length: recipients }, (_, place) => `+54911${String(first + place).padStart(8, "0")}`);
}
