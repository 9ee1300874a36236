/** An alarm of an account, in force until it ends. Processes of one store share it. */
export interface Alarm {
  /** `silence`: webhooks are missing; `key`: the service refuses the API key; `polls`: its answers to polls are unusable. */
  readonly alarm: "silence" | "key" | "polls";
  readonly account: string;
  /** Unix ms. */
  readonly since: number;
  readonly text: string;
  /** Possible causes, the most likely first. */
  readonly causes: readonly string[];
}

export interface AlarmChange {
  readonly state: "began" | "ended";
  readonly alarm: Alarm;
}
