import type { CampaignRecord } from "../world/records.ts";

/** A bulk send: to the `phones` given, or to so many strangers (`recipients`); exactly one of the two. */
export interface CampaignOrder {
  readonly name: string;
  /** The newest approved template by default. */
  readonly templateId?: string | undefined;
  readonly phones?: readonly string[] | undefined;
  readonly recipients?: number | undefined;
  readonly perSecond?: number | undefined;
}

export interface Campaigns {
  /** The record is there at once; its messages follow in batches. Throws ApiFault: no phones, a bad phone, no template. */
  start(account: string, order: CampaignOrder): CampaignRecord;
  /** Takes up the campaigns that a state file remembers. */
  resume(): void;
}
