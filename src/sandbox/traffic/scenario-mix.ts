/** Probabilities, each from 0 to 1. */
export interface ScenarioMix {
  /** Of an event: that it is held back and overtaken by up to `window` others. */
  readonly outOfOrder: number;
  /** Of an event: that it is posted again, byte for byte. Half of the copies follow at once. */
  readonly duplicated: number;
  /** Of an event: that it is posted again with the same id and other bytes. */
  readonly altered: number;
  /** Beside a status of one of our messages: that another post of this sort goes out. */
  readonly automation: number;
  readonly truncated: number;
  readonly malformed: number;
  readonly wronglySigned: number;
  /** That a campaign posts a burst of `campaignSize` statuses of unregistered messages. */
  readonly campaign: number;
}

export const usualMix: ScenarioMix = {
  outOfOrder: 0.1,
  duplicated: 0.08,
  altered: 0.01,
  automation: 0.05,
  truncated: 0.005,
  malformed: 0.01,
  wronglySigned: 0.005,
  campaign: 0.005,
};

/** Everything in order and once, nothing else. */
export const plainMix: ScenarioMix = {
  outOfOrder: 0,
  duplicated: 0,
  altered: 0,
  automation: 0,
  truncated: 0,
  malformed: 0,
  wronglySigned: 0,
  campaign: 0,
};
