import { expect, test } from "vitest";
import { auditCheck, checkSums, type DemoOutcome } from "../../../src/cli/demo/checks.ts";
import type { DemoCounts } from "../../../src/cli/demo/progress.ts";
import { answeredPath, everythingPath, failuresPath, statusesPath } from "../../../src/cli/demo/relay.ts";
import { summaryLines } from "../../../src/cli/demo/run.ts";
import type { RelayAudit } from "../../../src/model/audit.ts";
import type { Arrival } from "../../../src/sandbox/downstream/arrivals.ts";
import { bodyOf, outcomeOf, type Plant } from "./demo-outcome.ts";

type Arrivals = Parameters<NonNullable<Plant["arrivals"]>>[0];

const mismatches = (of: DemoOutcome) =>
  checkSums(of)
    .filter(({ ok }) => !ok)
    .map(({ what }) => what);
const at = (arrivals: Arrivals, path: string, eventId: string) =>
  arrivals.findIndex((arrival) => arrival.path === path && arrival.eventId === eventId);
const change = (path: string, eventId: string, to: Partial<Arrival>) => (arrivals: Arrivals) => {
  const index = at(arrivals, path, eventId);
  arrivals[index] = { ...(arrivals[index] as Arrival), ...to };
};
const drop = (path: string, eventId: string) => (arrivals: Arrivals) => void arrivals.splice(at(arrivals, path, eventId), 1);
const again = (path: string, eventId: string) => (arrivals: Arrivals) =>
  void arrivals.push({ ...(arrivals[at(arrivals, path, eventId)] as Arrival), deliveryId: "made twice" });
const deliveries = (changes: Partial<DemoOutcome["stats"]["deliveries"]>) => ({ ...outcomeOf().stats.deliveries, ...changes });
const dispositions = (changes: Partial<DemoOutcome["stats"]["dispositions"]>) => ({ ...outcomeOf().stats.dispositions, ...changes });
const { routed } = outcomeOf().stats.dispositions;
const { delivered } = outcomeOf().stats.deliveries;

test("the sums of a faultless run match", () => {
  expect(mismatches(outcomeOf())).toEqual([]);
});

const senders = "messages of all senders, in the console";
const emitted = "events emitted, each accepted once";
const status = "last status of each tracked message";
const faults = "faults at the downstream";
const planted: readonly (readonly [string, Plant, string[]])[] = [
  [
    "an event acknowledged and not stored",
    {
      arrivals: drop(everythingPath, "e10"),
      stats: { dispositions: dispositions({ routed: routed - 1 }), deliveries: deliveries({ delivered: delivered - 1 }) },
    },
    [emitted],
  ],
  ["an event stored twice", { stats: { dispositions: dispositions({ routed: routed + 1 }) } }, [emitted]],
  ["an event stored and not planned", { arrivals: drop(everythingPath, "e12") }, [emitted, "deliveries"]],
  [
    "an event that the service never posted",
    {
      posts: (posts) =>
        void posts.splice(
          posts.findIndex(({ eventId }) => eventId === "e12"),
          1,
        ),
    },
    [senders, emitted, faults],
  ],
  ["a malformed one let through", { stats: { dispositions: dispositions({ quarantined: 0, routed: routed + 1 }) } }, [emitted]],
  [
    "a message not registered",
    { outcome: { tracked: new Set([...outcomeOf().tracked].slice(1)) } },
    ["messages sent, and registered at the relay"],
  ],
  ["a campaign's message not counted", { outcome: { inConsole: outcomeOf().inConsole - 1 } }, [senders]],
  ["the end of a run not told", { arrivals: drop(everythingPath, "e21") }, [emitted, "deliveries"]],
  ["a delivered message not told", { arrivals: drop(answeredPath, "e09") }, ["deliveries"]],
  ["a failure not told", { arrivals: drop(failuresPath, "e04") }, ["deliveries"]],
  ["a failure told twice", { arrivals: again(failuresPath, "e04") }, ["deliveries"]],
  ["a last status not told", { arrivals: drop(statusesPath, "e03") }, ["deliveries", status]],
  [
    "another status told",
    { arrivals: change(statusesPath, "e04", { body: bodyOf("e04", "message.status", { wamid: "wamid.failed", status: "sent" }) }) },
    [status],
  ],
  [
    "a status that went back",
    { arrivals: change(statusesPath, "e03", { body: bodyOf("e03", "message.status", { wamid: "wamid.read", status: "sent" }) }) },
    [status, faults],
  ],
  ["another status when polled", { outcome: { polled: new Map([["wamid.truncated", "sent"]]) } }, [status]],
  ["a truncated one not polled", { outcome: { polled: new Map() } }, [status]],
  ["a body that was changed", { arrivals: change(everythingPath, "e02", { body: Buffer.from("{}") }) }, [faults]],
  ["a bad signature", { arrivals: change(answeredPath, "e02", { signature: "invalid" }) }, [faults]],
  [
    "one that overtook its message's earlier one",
    {
      arrivals(arrivals) {
        const [early, late] = [at(arrivals, everythingPath, "e01"), at(arrivals, everythingPath, "e02")];
        [arrivals[early], arrivals[late]] = [arrivals[late] as Arrival, arrivals[early] as Arrival];
      },
    },
    [faults],
  ],
];

test.each(planted)("reports %s as a mismatch", (_what, plant, found) => {
  const outcome = outcomeOf(plant);
  expect(mismatches(outcome)).toEqual(found);
  const text = summaryLines({ tookMs: 1, counts: {} as DemoCounts, checks: checkSums(outcome) }).join("\n");
  for (const what of found) expect(text).toContain(`MISMATCH  ${what}`);
  expect(text).toContain(`${found.length} of `);
});

test("an audit that does not balance is a mismatch", () => {
  const audit = { balanced: true, events: { received: 9 }, deliveries: { planned: 7 }, offenders: [] } as unknown as RelayAudit;
  expect(auditCheck(audit)).toEqual({ what: "audit of the relay", seen: { events: 9, deliveries: 7, offenders: 0 }, ok: true });
  expect(auditCheck({ ...audit, balanced: false }).ok).toBe(false);
});
