import type { ConditionName } from "./attention.ts";

interface AlarmFacts {
  /** Unix ms. */
  readonly since: number;
  readonly text: string;
  /** Possible causes, the most likely first. */
  readonly causes: readonly string[];
}

/** `silence`: webhooks are missing; `key`: the service refuses the API key; `polls`: its answers to polls are unusable. */
interface AccountAlarm extends AlarmFacts {
  readonly alarm: "silence" | "key" | "polls";
  readonly account: string;
  readonly route: null;
}

interface ConditionAlarm extends AlarmFacts {
  readonly alarm: ConditionName;
  readonly account: string | null;
  readonly route: string | null;
}

/** An alarm, in force until it ends. Processes of one store share it. */
export type Alarm = AccountAlarm | ConditionAlarm;

export interface AlarmChange {
  readonly state: "began" | "ended";
  readonly alarm: Alarm;
}

export interface StoredAlarm extends AlarmChange {
  readonly isReported: boolean;
}

export type AlarmName = Pick<Alarm, "alarm" | "account" | "route">;

export function alarmKey({ alarm, account, route }: AlarmName): string {
  return `${alarm} ${account ?? route ?? ""}`;
}
