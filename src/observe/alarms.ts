/** What an operator should look at, although the relay goes on working. */
export interface Alarm {
  /** `silence`: webhooks are missing; `key`: the service refuses the API key; `polls`: its answers to polls are of no use. */
  readonly alarm: "silence" | "key" | "polls";
  readonly account: string;
  /** Unix ms. */
  readonly since: number;
  readonly text: string;
  /** Likely ones, the likeliest first. */
  readonly causes: readonly string[];
}

/** As it goes out: times as ISO 8601. */
export type AlarmView = Omit<Alarm, "since"> & { readonly since: string };

export interface AlarmChange {
  readonly state: "began" | "ended";
  readonly alarm: Alarm;
}

export interface Alarms {
  /** Nothing new while it lasts. */
  began(alarm: Alarm): void;
  ended(alarm: Alarm["alarm"], account: string): void;
  /** Those that another process told of are in force, and no others; nothing is told. */
  adopt(alarms: readonly Alarm[]): void;
  list(): readonly AlarmView[];
}

/** Alarms in force; each change is told once. */
export function createAlarms(changed: (change: AlarmChange) => void): Alarms {
  const inForce = new Map<string, Alarm>();
  return {
    began(alarm) {
      const key = `${alarm.alarm} ${alarm.account}`;
      if (inForce.has(key)) return;
      inForce.set(key, alarm);
      changed({ state: "began", alarm });
    },
    ended(name, account) {
      const key = `${name} ${account}`;
      const alarm = inForce.get(key);
      if (alarm === undefined) return;
      inForce.delete(key);
      changed({ state: "ended", alarm });
    },
    adopt(alarms) {
      inForce.clear();
      for (const alarm of alarms) inForce.set(`${alarm.alarm} ${alarm.account}`, alarm);
    },
    list: () => [...inForce.values()].map(viewOf),
  };
}

/** What is posted to the alert URL. */
export function alertBody({ state, alarm }: AlarmChange, now: number): string {
  return JSON.stringify({ ...viewOf(alarm), state, at: new Date(now).toISOString() });
}

function viewOf({ since, ...rest }: Alarm): AlarmView {
  return { ...rest, since: new Date(since).toISOString() };
}
