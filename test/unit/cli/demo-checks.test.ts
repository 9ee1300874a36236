import { expect, test } from "vitest";
import { checkSums, type DemoOutcome } from "../../../src/cli/demo/checks.ts";
import { summaryLines } from "../../../src/cli/demo/run.ts";
import { everythingPath } from "../../../src/cli/demo/settings.ts";
import type { Arrival } from "../../../src/sandbox/downstream/arrivals.ts";
import { outcomeOf, type Plant } from "./demo-outcome.ts";

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
/** Of the first message, which was read. */
const tracked = (changes: Partial<DemoOutcome["tracked"][number]>) =>
  outcomeOf().tracked.map((message, index) => (index === 0 ? { ...message, ...changes } : message));
const bodyOfFirst = () => (outcomeOf().downstream.arrivals[0] as Arrival).body;
const { routed } = outcomeOf().stats.dispositions;
const { delivered } = outcomeOf().stats.deliveries;

test("the sums of a faultless run match", () => {
  expect(mismatches(outcomeOf())).toEqual([]);
});

const messages = "messages sent";
const stored = "events, each stored and delivered once";
const quarantined = "malformed ones, each quarantined alone";
const status = "last status of each message, with its reference";
const planted: readonly (readonly [string, Plant, string[]])[] = [
  [
    "an event acknowledged and not stored",
    {
      arrivals: drop(everythingPath, "e09"),
      stats: { dispositions: dispositions({ routed: routed - 1 }), deliveries: deliveries({ delivered: delivered - 1 }) },
    },
    [stored],
  ],
  ["an event stored twice", { stats: { dispositions: dispositions({ routed: routed + 1 }) } }, [stored]],
  ["an event stored and not planned", { arrivals: drop(everythingPath, "e12") }, [stored, "deliveries"]],
  [
    "an event that the service never posted",
    {
      posts: (posts) =>
        void posts.splice(
          posts.findIndex(({ eventId }) => eventId === "e12"),
          1,
        ),
    },
    [stored],
  ],
  ["a malformed one let through", { stats: { dispositions: dispositions({ quarantined: 0, routed: routed + 1 }) } }, [stored, quarantined]],
  ["a send without an answer", { outcome: { sent: new Map([...outcomeOf().sent].slice(1)) } }, [messages]],
  ["the end of a run not told", { arrivals: drop(everythingPath, "e21") }, [stored, "deliveries"]],
  ["a transition not told", { arrivals: drop("/statuses", "e04") }, ["deliveries"]],
  ["a transition told twice", { arrivals: again("/statuses", "e04") }, ["deliveries"]],
  ["another last status", { outcome: { tracked: tracked({ status: "sent" }) } }, [status]],
  ["a message without a status", { outcome: { tracked: tracked({ status: null }) } }, [status]],
  ["an unknown message that has a status", { outcome: { tracked: outcomeOf().tracked.slice(1) } }, [status]],
  ["another reference", { outcome: { tracked: tracked({ reference: "another" }) } }, [status]],
  ["a body that was changed", { arrivals: change(everythingPath, "e02", { body: Buffer.from("{}") }) }, [stored]],
  ["a bad signature", { arrivals: change(everythingPath, "e02", { signature: "invalid" }) }, [stored]],
  ["one delivered in place of another", { arrivals: change(everythingPath, "e02", { body: bodyOfFirst() }) }, [stored]],
];

test.each(planted)("reports %s as a mismatch", (_what, plant, found) => {
  const outcome = outcomeOf(plant);
  expect(mismatches(outcome)).toEqual(found);
  const text = summaryLines({ tookMs: 1, checks: checkSums(outcome) }).join("\n");
  for (const what of found) expect(text).toContain(`MISMATCH  ${what}`);
  expect(text).toContain(`${found.length} of `);
});

test("an audit that does not balance is a mismatch", () => {
  const { audit } = outcomeOf();
  const what = "audit of the relay";
  expect(checkSums(outcomeOf())).toContainEqual({ what, seen: { events: 9, deliveries: 7, offenders: 0 }, ok: true });
  expect(mismatches(outcomeOf({ outcome: { audit: { ...audit, balanced: false } } }))).toEqual([what]);
});
