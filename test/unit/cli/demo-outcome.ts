import { createPostLog, type DemoOutcome, type PostLog } from "../../../src/cli/demo/checks.ts";
import { everythingPath } from "../../../src/cli/demo/settings.ts";
import type { Wamid } from "../../../src/model/ids.ts";
import { type Arrival, createArrivalLog } from "../../../src/sandbox/downstream/arrivals.ts";
import type { ObservedPost } from "../../../src/sandbox/start-sandbox.ts";

/** What may be done to the faultless run before its sums are checked. */
export interface Plant {
  /** Changes the arrivals at the downstream, in their order. */
  arrivals?(arrivals: Omit<Arrival, "number">[]): void;
  /** Changes the posts that the service saw. */
  posts?(posts: ObservedPost[]): void;
  readonly outcome?: Partial<DemoOutcome>;
  readonly stats?: Partial<DemoOutcome["stats"]>;
}

type Life = readonly (readonly [status: string, event: string])[];

/** Tracked; then one that nobody registered. */
export const lives: Readonly<Record<string, Life>> = {
  read: [
    ["sent", "e01"],
    ["delivered", "e02"],
    ["read", "e03"],
  ],
  failed: [["failed", "e04"]],
  "failed-first": [
    ["sent", "e05"],
    ["failed", "e06"],
    ["delivered", "e07"],
  ],
  // Arrives before `delivered`, which then moves nothing.
  overtaken: [
    ["read", "e08"],
    ["delivered", "e09"],
  ],
  pending: [],
  stranger: [["failed", "e12"]],
};
const lasts: Readonly<Record<string, string>> = {
  read: "read",
  failed: "failed",
  "failed-first": "delivered",
  overtaken: "read",
  pending: "pending",
  stranger: "failed",
};
const climb = ["pending", "sent", "failed", "delivered", "read"];
const wamidOf = (name: string) => `wamid.${name}` as Wamid;

export const bodyOf = (id: string, event: string, data: object) =>
  Buffer.from(JSON.stringify({ id, event, createdAt: "2026-11-21T00:00:00.000Z", data }));

const referenceOf = (wamid: string) => `order of ${wamid}`;

/** A run in which all went well, as a relay without faults would have led to, and then `plant`. */
export function outcomeOf(plant: Plant = {}): DemoOutcome {
  const posts: ObservedPost[] = [];
  const arrivals: Omit<Arrival, "number">[] = [];
  let number = 0;
  const post = (eventId: string, body: Buffer, sort: ObservedPost["sort"], answered: number) => {
    number += 2;
    posts.push({ url: "http://relay/webhooks/main", eventId, body, sort, answered, began: number - 1, ended: number });
  };
  const arrive = (path: string, eventId: string, wamid: string | null, body: Buffer) =>
    arrivals.push({ path, deliveryId: eventId + path, attempt: 1, eventId, wamid, answered: 200, signature: "valid", body });
  const emit = (id: string, kind: string, data: object, wamid: string | null) => {
    const body = bodyOf(id, kind, data);
    post(id, body, "event", 200);
    arrive(everythingPath, id, wamid, body);
  };
  for (const [name, life] of Object.entries(lives)) {
    const wamid = wamidOf(name);
    let now = "pending";
    for (const [word, id] of life) {
      emit(id, "message.status", { wamid, status: word }, wamid);
      if (name === "stranger" || climb.indexOf(word) <= climb.indexOf(now)) continue;
      now = word;
      arrive("/statuses", id, wamid, Buffer.from("enriched"));
    }
  }
  emit("e20", "automation.completed", { runId: "r1" }, null);
  emit("e21", "automation.failed", { runId: "r2", error: "no" }, null);
  const [first] = posts as [ObservedPost];
  post("e01", first.body, "event", 200);
  post("e01", Buffer.from("{"), "malformed", 202);
  post("e02", first.body, "wrongly-signed", 401);

  const stats = statsOf(arrivals.filter(({ path }) => path === everythingPath).length, arrivals.length);
  plant.posts?.(posts);
  plant.arrivals?.(arrivals);
  const log: PostLog = createPostLog("standard");
  for (const one of posts) log.note(one);
  const downstream = createArrivalLog({ keepArrivals: true });
  for (const [index, arrival] of arrivals.entries()) downstream.note({ ...arrival, number: index + 1 });
  const names = Object.keys(lives);
  const ours = names.filter((name) => name !== "stranger");
  return {
    format: "standard",
    planned: ours.length,
    sent: new Map(ours.map((name) => [wamidOf(name), referenceOf(wamidOf(name))])),
    messages: names.map((name) => ({
      wamid: wamidOf(name),
      origin: name === "stranger" ? "campaign" : "api",
      status: lasts[name] as "read",
    })),
    log,
    stats: { ...stats, ...plant.stats },
    tracked: ours.map((name) => ({
      wamid: wamidOf(name),
      status: name === "pending" ? null : (lasts[name] as string),
      reference: referenceOf(wamidOf(name)),
    })),
    audit: { balanced: true, events: { received: 9 }, deliveries: { planned: 7 }, offenders: [] },
    downstream: { arrivals: downstream.all, counts: downstream.counts },
    ...plant.outcome,
  };
}

export function statsOf(accepted: number, delivered: number): DemoOutcome["stats"] {
  return {
    dispositions: { routed: accepted, filtered: 0, ignored: 0, parked: 0, quarantined: 1 },
    duplicates: 1,
    deliveries: { waiting: 0, held: 0, dead: 0, delivered },
  };
}
