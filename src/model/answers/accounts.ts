import { z } from "zod";
import { component, foreign, time, type View } from "../view.ts";
import { account, count, foreignText } from "./fields.ts";

const reconcileStopSchema = component("ReconcileStop", "Why not every due message was polled.", {
  reason: z
    .enum([
      "unauthenticated",
      "quota",
      "blocked",
      "unreachable",
      "refused",
      "unreadable",
      "not-found",
    ])
    .describe(
      `What stopped the polls.

| reason | meaning |
|---|---|
| \`unauthenticated\` | the service refuses the key |
| \`quota\` | the monthly quota is used up |
| \`blocked\` | the service blocks this address for a minute |
| \`unreachable\` | five calls in a row failed |
| \`not-found\`, \`refused\`, \`unreadable\` | the service answers every poll so |`,
    ),
  until: time.nullable().describe("When polls resume; null when unknown."),
  detail: foreign
    .exactOptional()
    .describe("The last answer, for `refused`, `unreadable` and `not-found`."),
});
export type ReconcileStop = z.infer<typeof reconcileStopSchema>;

const accountStanding = {
  missing: count.describe("Messages that the service does not know."),
  postponed: count.describe("Due messages that were postponed to save the month's quota."),
  unpollable: count.describe("Messages known by wamid only, which cannot be polled."),
  stopped: reconcileStopSchema
    .nullable()
    .describe("Why not every due message was polled; null when nothing stopped the polls."),
  lastsUntil: time
    .nullable()
    .describe(
      "When the month's quota would be used up if every due message were polled; null when it lasts.",
    ),
};

const passFields = {
  ...accountStanding,
  polled: count.describe("Messages polled."),
  changed: count.describe("Messages whose status changed."),
  unchanged: count.describe("Messages whose status did not change."),
  failed: count.describe("Polls without a usable answer."),
};
const accountReconciledSchema = component(
  "AccountReconciled",
  "The result of a pass over one account.",
  { account, ...passFields },
);
export type AccountReconciled = z.infer<typeof accountReconciledSchema>;

const accountPlanSchema = component("AccountPlan", "What a pass over one account would do.", {
  account,
  due: count.describe("Messages that are due."),
  wouldPoll: count.describe("Most calls that a pass would make."),
  ...accountStanding,
});
export type AccountPlan = z.infer<typeof accountPlanSchema>;

const lastPassSchema = component("LastPass", "The last reconciliation pass over an account.", {
  ...passFields,
  endedAt: time.describe("When it ended."),
  unreachableSince: time
    .nullable()
    .describe("Since when the service answers no poll; null when it does."),
});

const stopSchema = component(
  "AccountStop",
  "Calls of an account that the relay does not make at present.",
  {
    reason: z
      .enum(["unauthenticated", "quota", "quota-messages", "quota-runs", "quota-reads", "blocked"])
      .describe(
        "What stopped calls: a refused key, a used-up quota with the calls it covers, or a blocked address.",
      ),
    resource: foreignText.describe("The service's name of the quota; null when it gave none."),
    until: time.describe("When the next call tries again."),
  },
);

export const accountsSchema = component("Accounts", "The accounts of the settings.", {
  data: z
    .array(
      component(
        "Account",
        "An account at the messaging service, and what the relay does with it.",
        {
          account,
          isCallable: z
            .boolean()
            .describe(
              "Whether the settings have `baseUrl` and `apiKey`. Only then the relay sends and polls.",
            ),
          plan: z.enum(["escala", "enterprise"]).describe("The plan in the settings."),
          stops: z.array(stopSchema).describe("Stopped calls; empty when there are none."),
          budget: component(
            "AccountBudget",
            "What an account may call, and has called, in a month.",
            {
              from: time.describe("When the month began."),
              until: time.describe("When the quota renews."),
              quota: count
                .nullable()
                .describe(
                  "The relay's share of the month's calls; null when the plan has no limit.",
                ),
              polls: count.describe("Polls made this month."),
              others: count.describe("Other calls made this month: sends, runs, reads."),
              left: count.nullable().describe("Calls left this month; null without a limit."),
              pollsNow: count
                .nullable()
                .describe("Polls that the budget allows at this time; null without a limit."),
            },
          ).describe("The month's calls."),
          lastPass: lastPassSchema
            .nullable()
            .describe("The last reconciliation pass; null when none has ended yet."),
          nextPassAt: time
            .nullable()
            .describe(
              "When the schedule starts the next pass; null when `reconcile.schedule` is `off`.",
            ),
        },
      ),
    )
    .describe("The accounts of the settings, in their order."),
});
export type AccountsView = View<typeof accountsSchema>;
export type RelayAccount = z.infer<typeof accountsSchema>["data"][number];

const dueBy = time.describe("The pass covers messages due by this time.");

export const reconciledSchema = component("Reconciled", "One step of a reconciliation pass.", {
  dueBy,
  more: z.boolean().describe("True: repeat the request with this `dueBy` to continue the pass."),
  accounts: z.array(accountReconciledSchema).describe("The results by account."),
});
export const reconcilePlanSchema = component(
  "ReconcilePlan",
  "What a reconciliation pass would do.",
  {
    dueBy,
    accounts: z.array(accountPlanSchema).describe("The plan by account."),
  },
);
