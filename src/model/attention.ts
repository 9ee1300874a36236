export const severities = ["error", "warning"] as const;

interface Condition {
  /** As `attention` of the API names it. Some kinds have two conditions of different severity. */
  readonly kind: AttentionKind;
  readonly severity: (typeof severities)[number];
  /** What it concerns: the label of `relay_attention`. `instance`: one process. */
  readonly about: "route" | "account" | "instance" | "store";
  /** How long it lasts before it is an alarm, in seconds. */
  readonly after: number;
  readonly alert: string;
  readonly summary: string;
  /** What to do. `$subject` stands for the route or account. */
  readonly cure: string;
  readonly command?: string;
  /**
   * When `GET /v1/overview` lists it, where the summary does not say so; and what the API offers
   * then.
   */
  readonly listed?: string;
  readonly action?: "retry" | "resume" | "release";
}

export type ConditionName = keyof typeof table;
export type AttentionKind = Exclude<
  ConditionName,
  "destination-late" | "quota-used-up" | "database-standby"
>;

/**
 * The most urgent first. `kind` is the name, and `after` 0, where they are not given.
 * `inspect/attention.ts` has the limits.
 */
const table = {
  "store-failing": {
    severity: "error",
    about: "instance",
    after: 60,
    alert: "RelayCannotStore",
    summary: "A relay cannot store events",
    listed: "events cannot be stored",
    cure: "Repair the store. The relay then continues by itself.",
  },
  "database-unsafe": {
    severity: "error",
    about: "store",
    after: 60,
    alert: "RelayDatabaseUnsafe",
    summary: "A crash of PostgreSQL may lose acknowledged events",
    listed: "with `driver: postgres`: a crash of the server may lose acknowledged events",
    cure: "Set fsync, full_page_writes and synchronous_commit to on.",
  },
  "database-standby": {
    kind: "database-unsafe",
    severity: "warning",
    about: "store",
    after: 60,
    alert: "RelayDatabaseStandby",
    summary: "A failover of PostgreSQL may lose acknowledged events",
    listed: "a failover may",
    cure: "Set synchronous_standby_names, and synchronous_commit = on.",
  },
  "no-webhooks": {
    severity: "error",
    about: "account",
    alert: "RelayWebhooksMissing",
    summary: "Webhooks are missing",
    listed:
      "messages were sent and their webhooks do not arrive, or the relay refuses every webhook",
    cure: "Check the webhook settings at the messaging service. /readyz names likely causes.",
  },
  "destination-stopped": {
    severity: "error",
    about: "route",
    alert: "RelayDestinationStopped",
    summary: "A destination is stopped",
    listed: "the destination answered 410, until you resume it",
    action: "resume",
    cure: "Repair the destination, then resume it.",
    command: "wamid-relay resume $subject",
  },
  "destination-failing": {
    severity: "error",
    about: "route",
    after: 30,
    alert: "RelayDestinationFailing",
    summary: "A destination fails",
    listed: "the breaker is not closed, or attempts failed in a row: ten, or three over a minute",
    action: "retry",
    cure: "Repair the destination. The relay keeps trying; to try at once, retry.",
    // An open breaker holds back what a replay makes due.
    command: "wamid-relay resume $subject && wamid-relay replay --route $subject --state waiting",
  },
  "destination-late": {
    kind: "destination-failing",
    severity: "warning",
    about: "route",
    after: 300,
    alert: "RelayDeliveriesOverdue",
    summary: "Deliveries of a route are overdue",
    listed: "a delivery has been due for over ten minutes",
    cure: "The destination is slow, its rate or concurrency is too low, or too few workers run.",
  },
  "destination-paused": {
    severity: "warning",
    about: "route",
    after: 600,
    alert: "RelayDestinationPaused",
    summary: "A destination asked for a long pause",
    listed: "deliveries wait during a pause of a minute or more (429 with `Retry-After`)",
    action: "resume",
    cure: "To call it now, resume it.",
    command: "wamid-relay resume $subject",
  },
  "destination-slow": {
    severity: "warning",
    about: "route",
    after: 300,
    alert: "RelayDestinationSlow",
    summary: "A destination takes more than half of its timeout",
    listed: "deliveries in a row took more than half of the timeout: ten, or three over a minute",
    cure: "Let the destination answer before it does its work, or raise its timeout. Attempts over the timeout fail and are repeated.",
  },
  "account-stopped": {
    severity: "error",
    about: "account",
    alert: "RelayKeyRefused",
    summary: "The messaging service refuses the API key",
    cure: "Correct accounts.$subject.apiKey, then reload the settings.",
    command: "wamid-relay reload",
  },
  "quota-used-up": {
    kind: "account-stopped",
    severity: "warning",
    about: "account",
    alert: "RelayQuotaUsedUp",
    summary: "A monthly quota is used up",
    action: "resume",
    cure: "Wait, or change the plan and resume the account.",
    command: "wamid-relay resume --account $subject",
  },
  "reconcile-failing": {
    severity: "warning",
    about: "account",
    alert: "RelayPollsFaulty",
    summary: "All polls of messages fail",
    listed: "polls of messages fail",
    cure: "Check its baseUrl, apiKey and plan, then reload.",
    command: "wamid-relay reload",
  },
  "database-strained": {
    severity: "warning",
    about: "store",
    after: 300,
    alert: "RelayDatabaseStrained",
    summary: "Connections, transactions, the clock or the distance of PostgreSQL hinder the relay",
    listed:
      "with `driver: postgres`: few connections are left, a transaction stays open, or clock or distance differ too much",
    cure: "wamid-relay doctor names the cause.",
  },
  "dead-letters": {
    severity: "warning",
    about: "route",
    alert: "RelayDeadLetters",
    summary: "Deliveries ran out of attempts",
    action: "retry",
    cure: "Repair the destination, then retry them.",
    command: "wamid-relay replay --route $subject",
  },
  "route-missing": {
    severity: "warning",
    about: "route",
    after: 300,
    alert: "RelayRouteMissing",
    summary: "Deliveries wait for a route that is not in the settings",
    cure: "Put the route back under this name, then reload.",
    command: "wamid-relay reload",
  },
  quarantined: {
    severity: "warning",
    about: "store",
    alert: "RelayQuarantined",
    summary: "Signed webhooks are not valid events",
    action: "release",
    cure: "Each one shows the reason. Correct the sender. Release them once an upgraded relay reads them.",
    command: "wamid-relay replay --disposition quarantined",
  },
  unassigned: {
    severity: "warning",
    about: "store",
    alert: "RelayUnassigned",
    summary: "Events came for business numbers that no account has",
    action: "release",
    cure: "Add the numbers to accounts of their source, reload, then release them.",
    command: "wamid-relay replay --disposition unassigned",
  },
  "backup-failing": {
    severity: "warning",
    about: "instance",
    alert: "RelayBackupFailed",
    summary: "A scheduled backup failed",
    listed: "the last scheduled backup failed, or `backup.folder` cannot be written",
    cure: "Correct backup.folder, or make room. The next scheduled backup ends this.",
  },
  "settings-refused": {
    severity: "warning",
    about: "instance",
    alert: "RelaySettingsRefused",
    summary: "A relay refused its settings file",
    listed: "the last reload was refused",
    cure: "The previous settings stay in effect. Correct the file, then reload.",
    command: "wamid-relay reload",
  },
} as const satisfies Readonly<
  Record<
    string,
    Omit<Condition, "kind" | "after"> & { readonly kind?: string; readonly after?: number }
  >
>;

export const conditions = Object.fromEntries(
  Object.entries(table).map(([name, condition]) => [name, { kind: name, after: 0, ...condition }]),
) as Readonly<Record<ConditionName, Condition>>;

export const attentionKinds = [...new Set(Object.values(conditions).map(({ kind }) => kind))] as [
  AttentionKind,
  ...AttentionKind[],
];

export function conditionOf({
  kind,
  severity,
}: Pick<Condition, "kind" | "severity">): ConditionName {
  const names = Object.keys(conditions) as ConditionName[];
  return (
    names.find(
      (name) => conditions[name].kind === kind && conditions[name].severity === severity,
    ) ?? kind
  );
}

export function about(text: string, subject: string | null): string {
  return text.replaceAll("$subject", () => subject ?? "");
}

/** The kinds in the reference. A kind's second condition has a row without its name. */
export const attentionTable = [
  "| kind | subject | listed while | action |",
  "|---|---|---|---|",
  ...Object.entries(conditions).map(([name, { kind, about: of, summary, listed, action }]) => {
    const subject = of === "route" || of === "account" ? of : "null";
    const when = listed ?? summary.charAt(0).toLowerCase() + summary.slice(1);
    const row = name === kind ? `\`${kind}\` | ${subject} | ${when}` : `| | ${when} (a warning)`;
    return `| ${row} | ${action === undefined ? "" : `\`${action}\` `}|`;
  }),
].join("\n");

export interface StoreFailure {
  readonly text: string;
  /** The relay does not continue by itself: the text says what to do. */
  readonly isLost: boolean;
}

/**
 * An alarm, in force until it ends. Processes of one store share it. `silence`: webhooks are
 * missing; `key`: the service refuses the API key; `polls`: its answers to polls are unusable.
 */
export type Alarm = {
  readonly since: number;
  readonly text: string;
  /** Possible causes, the most likely first. */
  readonly causes: readonly string[];
} & (
  | { readonly alarm: "silence" | "key" | "polls"; readonly account: string; readonly route: null }
  | {
      readonly alarm: ConditionName;
      readonly account: string | null;
      readonly route: string | null;
    }
);

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
