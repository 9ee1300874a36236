import { expect, test } from "vitest";
import { anAccount } from "./an-account.ts";

test("enterprise, and a sandbox without limits, spend without end; plans without webhooks have no deliveries", () => {
  const enterprise = anAccount({ plan: "enterprise" });
  enterprise.account.usage.webhookDeliveries = 10 ** 9;
  expect(enterprise.limits.spend(enterprise.account, "webhookDeliveries")).toBe(true);
  const lifted = anAccount({ isUnlimited: true });
  lifted.account.usage.webhookDeliveries = 500_000;
  expect(lifted.limits.spend(lifted.account, "webhookDeliveries")).toBe(true);
  expect(lifted.account.usage.webhookDeliveries).toBe(500_001);
  const trial = anAccount({ plan: "trial", isUnlimited: true });
  expect(trial.limits.spend(trial.account, "webhookDeliveries")).toBe(false);
});
