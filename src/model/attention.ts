export const severities = ["error", "warning"] as const;
type Severity = (typeof severities)[number];

interface Condition {
  /** As `attention` of the API names it. Some kinds have two conditions of different severity. */
  readonly kind: AttentionKind;
  readonly severity: Severity;
  /** What it concerns: the label of `relay_attention`. `instance`: one process. */
  readonly about: "route" | "account" | "instance" | "store";
  /** How long it lasts before it is an alarm, in seconds. */
  readonly after: number;
  readonly alert: string;
  readonly summary: string;
  /** What to do. `$subject` stands for the route or account. */
  readonly cure: string;
  readonly command?: string;
}

export type ConditionName = keyof typeof table;
export type AttentionKind = Exclude<ConditionName, "destination-late" | "quota-used-up" | "database-standby">;

/**
 * The most urgent first. `kind` is the name, and `after` 0, where they are not given. `inspect/attention.ts` has the limits.
 */
const table = {
  "store-failing": {
    severity: "error",
    about: "instance",
    after: 60,
    alert: "RelayCannotStore",
    summary: "A relay cannot store events",
    cure: "Repair the store. The relay then continues by itself.",
  },
  "database-unsafe": {
    severity: "error",
    about: "store",
    after: 60,
    alert: "RelayDatabaseUnsafe",
    summary: "A crash of PostgreSQL may lose acknowledged events",
    cure: "Set fsync, full_page_writes and synchronous_commit to on.",
  },
  "database-standby": {
    kind: "database-unsafe",
    severity: "warning",
    about: "store",
    after: 60,
    alert: "RelayDatabaseStandby",
    summary: "A failover of PostgreSQL may lose acknowledged events",
    cure: "Set synchronous_standby_names, and synchronous_commit = on.",
  },
  "no-webhooks": {
    severity: "error",
    about: "account",
    alert: "RelayWebhooksMissing",
    summary: "Webhooks are missing",
    cure: "Check the webhook settings at the messaging service. /readyz names likely causes.",
  },
  "destination-stopped": {
    severity: "error",
    about: "route",
    alert: "RelayDestinationStopped",
    summary: "A destination is stopped",
    cure: "Repair the destination, then resume it.",
    command: "wamid-relay resume $subject",
  },
  "destination-failing": {
    severity: "error",
    about: "route",
    after: 30,
    alert: "RelayDestinationFailing",
    summary: "A destination fails",
    cure: "Repair the destination. The relay keeps trying; to try at once, retry.",
    command: "wamid-relay replay --route $subject --state waiting",
  },
  "destination-late": {
    kind: "destination-failing",
    severity: "warning",
    about: "route",
    after: 300,
    alert: "RelayDeliveriesOverdue",
    summary: "Deliveries of a route are overdue",
    cure: "The destination is slow, its rate or concurrency is too low, or too few workers run.",
  },
  "destination-paused": {
    severity: "warning",
    about: "route",
    after: 600,
    alert: "RelayDestinationPaused",
    summary: "A destination asked for a long pause",
    cure: "To call it now, resume it.",
    command: "wamid-relay resume $subject",
  },
  "destination-slow": {
    severity: "warning",
    about: "route",
    after: 300,
    alert: "RelayDestinationSlow",
    summary: "A destination takes more than half of its timeout",
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
    cure: "Wait, or change the plan and resume the account.",
    command: "wamid-relay resume --account $subject",
  },
  "reconcile-failing": {
    severity: "warning",
    about: "account",
    alert: "RelayPollsFaulty",
    summary: "All polls of messages fail",
    cure: "Check its baseUrl, apiKey and plan, then reload.",
    command: "wamid-relay reload",
  },
  "database-strained": {
    severity: "warning",
    about: "store",
    after: 300,
    alert: "RelayDatabaseStrained",
    summary: "Connections, transactions, the clock or the distance of PostgreSQL hinder the relay",
    cure: "wamid-relay doctor names the cause.",
  },
  "dead-letters": {
    severity: "warning",
    about: "route",
    alert: "RelayDeadLetters",
    summary: "Deliveries ran out of attempts",
    cure: "Repair the destination, then retry them.",
    command: "wamid-relay replay --route $subject",
  },
  quarantined: {
    severity: "warning",
    about: "store",
    alert: "RelayQuarantined",
    summary: "Signed webhooks are not valid events",
    cure: "Each one shows the reason. Correct the sender. Release them once an upgraded relay reads them.",
    command: "wamid-relay replay --disposition quarantined",
  },
  unassigned: {
    severity: "warning",
    about: "store",
    alert: "RelayUnassigned",
    summary: "Events came for business numbers that no account has",
    cure: "Add the numbers to accounts of their source, reload, then release them.",
    command: "wamid-relay replay --disposition unassigned",
  },
  "settings-refused": {
    severity: "warning",
    about: "instance",
    alert: "RelaySettingsRefused",
    summary: "A relay refused its settings file",
    cure: "The previous settings stay in effect. Correct the file, then reload.",
    command: "wamid-relay reload",
  },
} as const satisfies Readonly<Record<string, Omit<Condition, "kind" | "after"> & { readonly kind?: string; readonly after?: number }>>;

export const conditions = Object.fromEntries(
  Object.entries(table).map(([name, condition]) => [name, { kind: name, after: 0, ...condition }]),
) as Readonly<Record<ConditionName, Condition>>;

export const attentionKinds = [...new Set(Object.values(conditions).map(({ kind }) => kind))] as [AttentionKind, ...AttentionKind[]];

export function conditionOf({ kind, severity }: Pick<Condition, "kind" | "severity">): ConditionName {
  const names = Object.keys(conditions) as ConditionName[];
  return names.find((name) => conditions[name].kind === kind && conditions[name].severity === severity) ?? kind;
}

export function about(text: string, subject: string | null): string {
  return text.replaceAll("$subject", () => subject ?? "");
}
