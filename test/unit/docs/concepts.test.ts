import { expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { scopes } from "../../../src/config/schema.ts";
import { giveUpReasons, hydrationStates } from "../../../src/model/hydration.ts";
import { leaseTimes } from "../../../src/model/route-lease.ts";
import { keyStates } from "../../../src/model/send.ts";
import { dispositions } from "../../../src/model/states.ts";
import { trackingSchema } from "../../../src/route/settings.ts";
import { monthlyCalls, mostPolls, planCaps, shareOf } from "../../../src/service/limits/caps.ts";
import { quotaReasons } from "../../../src/service/limits/stops.ts";
import { namesIn, readPage } from "../../harness/pages.ts";

const read = (page: string) => readPage(`docs/concepts/${page}.md`);
const settings = parseSettings("accounts: { main: { plan: escala } }", "relay.yaml", {});

const hours = (ms: number) => `${ms / 3_600_000}`;

test("routing has every disposition", () => {
  expect(namesIn(read("routing"), "disposition").toSorted()).toEqual([...dispositions].toSorted());
});

test("parking has every policy for unknown messages, and the defaults", () => {
  const page = read("parking");
  expect(namesIn(page, "`tracking.unknown`")).toEqual(trackingSchema.options);
  expect(page).toContain(`\`${settings.tracking.unknown}\` (default)`);
  expect(page).toContain(`\`parkFor\`, ${settings.tracking.parkFor / 1000} s by default`);
  expect(settings.retention.ignored).toBe(86_400_000);
});

test("truncated events have every state and reason of a hydration, and the defaults", () => {
  const page = read("truncated-events");
  const { delay, reach, settledAfter, giveUpAfter, callsPerDay } = settings.hydrate;
  expect(namesIn(page, "`state`")).toEqual(hydrationStates);
  expect(namesIn(page, "`reason`")).toEqual(giveUpReasons);
  expect(page).toContain(`\`hydrate.delay\` (${delay / 1000} s)`);
  expect(page).toContain(`at most ${hours(reach)} hours before the event | \`hydrate.reach\``);
  expect(page).toContain(`for over ${hours(settledAfter)} hours | \`hydrate.settledAfter\``);
  expect(page).toContain(`\`hydrate.giveUpAfter\` (${hours(giveUpAfter)} h) passed`);
  expect(page).toContain(`${callsPerDay.toLocaleString("en")} (\`hydrate.callsPerDay\`)`);
  const poll = mostPolls(shareOf(planCaps.escala, settings.accounts["main"]?.share ?? 0));
  expect(page).toContain(
    `${poll} calls per minute by default: 10,000 open messages take ${Math.floor(10_000 / poll / 10) * 10} minutes`,
  );
});

test("reconciliation has the quota, every stop, and the defaults", () => {
  const page = read("reconciliation-and-quotas");
  expect(page).toContain(
    `\`escala\` has ${monthlyCalls.escala?.toLocaleString("en")} calls a month`,
  );
  expect(monthlyCalls.enterprise).toBeNull();
  for (const stop of quotaReasons) expect(page).toContain(`\`${stop}\``);
  expect(page).toContain(`\`reconcile.giveUpAfter\` (${hours(settings.reconcile.giveUpAfter)} h)`);
  expect(page).toContain(`\`silence.after\` (${settings.silence.after / 60_000} min)`);
});

test("sending has every state of a key, and the defaults", () => {
  const page = read("sending");
  expect(namesIn(page, "state of the key")).toEqual(keyStates);
  expect(page).toContain(`\`send.maxWait\` (${settings.send.maxWait / 1000} s)`);
  expect(page).toContain(`\`send.keepKeys\` (${settings.send.keepKeys / 86_400_000} days)`);
});

test("the security model has every scope", () => {
  expect(namesIn(read("security-model"), "scope")).toEqual(scopes);
});

test("engines and the design have the times of leases", () => {
  expect(leaseTimes).toEqual({ beatMs: 2_000, deadlineMs: 6_000, deadAfterMs: 10_000 });
  for (const row of ["| heartbeat | every 2 s |", "| deadline | 6 s ", "| takeover | 10 s "])
    expect(read("../contributing/design")).toContain(row);
  expect(read("engines")).toContain(
    "The routes of a worker that dies move to others after ten seconds.",
  );
  expect(read("engines")).toContain("six seconds after its last heartbeat it begins no attempt");
});
