/** An alarm as processes that share a store tell one another of it. */
export interface AlarmInForce {
  readonly alarm: "silence" | "key" | "polls";
  readonly account: string;
  /** Unix ms. */
  readonly since: number;
  readonly text: string;
  readonly causes: readonly string[];
}

/** What is told of an alarm, by one process. */
export interface NotedAlarmChange {
  readonly state: "began" | "ended";
  readonly alarm: AlarmInForce;
}
