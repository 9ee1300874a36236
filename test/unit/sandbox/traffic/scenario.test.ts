import fc from "fast-check";
import { expect, test } from "vitest";
import { parseEnvelope } from "../../../../src/model/envelope.ts";
import type { Post } from "../../../../src/sandbox/traffic/answers.ts";
import {
  plainMix,
  type ScenarioMix,
  type ScenarioSettings,
  scenario,
} from "../../../../src/sandbox/traffic/scenario.ts";

const start = Date.UTC(2026, 10, 1);
const posts = (settings: Partial<ScenarioSettings> = {}): Post[] => [
  ...scenario({ seed: 1, start, messages: 100, ...settings }),
];

const share = fc.double({ min: 0, max: 1, noNaN: true });
const mixes: fc.Arbitrary<ScenarioMix> = fc.record({
  outOfOrder: share,
  duplicated: share,
  altered: share,
  automation: share,
  truncated: share,
  malformed: share,
  wronglySigned: share,
  campaign: fc.double({ min: 0, max: 0.1, noNaN: true }),
});
const settings = fc.record({
  seed: fc.integer(),
  messages: fc.integer({ min: 0, max: 40 }),
  mix: mixes,
  window: fc.integer({ min: 1, max: 64 }),
});

test("the same settings give the same posts, byte for byte; another seed gives others", () => {
  const busy = {
    mix: { malformed: 0.2, wronglySigned: 0.2, altered: 0.2, truncated: 0.2, campaign: 0.05 },
  };
  expect(posts(busy)).toEqual(posts(busy));
  expect(posts(busy)[0]?.body).not.toEqual(posts({ ...busy, seed: 2 })[0]?.body);
});

test("for each event id exactly one post is not a duplicate, and its bytes are an envelope with that id", () => {
  fc.assert(
    fc.property(settings, (drawn) => {
      const firsts = new Map<string, number>();
      for (const post of posts({ ...drawn, campaignSize: 5 })) {
        if (post.expected.of !== "event") continue;
        expect(post.signature).toBe("right");
        expect(post.expected.id).toBe(post.subject.id);
        const parsed = parseEnvelope(post.body);
        expect(parsed.ok && parsed.envelope.id).toBe(post.expected.id);
        const isFirst = post.sort !== "duplicate" && post.sort !== "altered-duplicate";
        firsts.set(post.expected.id, (firsts.get(post.expected.id) ?? 0) + (isFirst ? 1 : 0));
      }
      for (const count of firsts.values()) expect(count).toBe(1);
    }),
    { numRuns: 50 },
  );
});

test("what is not an event is told apart: quarantined is signed and no envelope, unauthorized is not rightly signed", () => {
  fc.assert(
    fc.property(settings, (drawn) => {
      for (const post of posts({ ...drawn, campaignSize: 5 })) {
        if (post.expected.of !== "post") continue;
        if (post.expected.answer === "quarantined") {
          expect(post.signature).toBe("right");
          expect(parseEnvelope(post.body).ok).toBe(false);
        } else expect(post.signature).not.toBe("right");
      }
    }),
    { numRuns: 50 },
  );
});

test("copies have the same bytes, altered copies others", () => {
  const all = posts({ mix: { duplicated: 0.5, altered: 0.5 } });
  const originals = new Map(
    all
      .filter((post) => !post.sort.includes("duplicate"))
      .map((post) => [post.subject.id, post.body]),
  );
  const copies = all.filter((post) => post.sort === "duplicate");
  const altered = all.filter((post) => post.sort === "altered-duplicate");
  expect(copies.length).toBeGreaterThan(20);
  expect(altered.length).toBeGreaterThan(20);
  for (const copy of copies)
    expect(copy.body.equals(originals.get(copy.subject.id) as Buffer)).toBe(true);
  for (const copy of altered)
    expect(copy.body.equals(originals.get(copy.subject.id) as Buffer)).toBe(false);
});

const disorder = (all: Post[]): number => {
  const newest = new Map<string, string>();
  let overtaken = 0;
  for (const { subject, sort } of all) {
    if (subject.wamid === null || sort !== "status") continue;
    const before = newest.get(subject.wamid);
    if (before !== undefined && subject.id < before) overtaken += 1;
    else newest.set(subject.wamid, subject.id);
  }
  return overtaken;
};

test("in order unless told otherwise, and then really out of order", () => {
  expect(disorder(posts({ mix: plainMix }))).toBe(0);
  expect(disorder(posts({ mix: { ...plainMix, outOfOrder: 0.3 } }))).toBeGreaterThan(10);
});

test("the plain mix is the lives of our messages and nothing else", () => {
  const all = posts({ mix: plainMix });
  expect(new Set(all.map((post) => post.sort))).toEqual(new Set(["status"]));
  expect(new Set(all.map((post) => post.subject.wamid)).size).toBe(100);
});

test("a long run with the usual mix plays every sort", () => {
  const sorts = [
    "status",
    "campaign",
    "automation",
    "truncated",
    "duplicate",
    "altered-duplicate",
    "malformed",
    "wrongly-signed",
  ];
  expect(new Set(posts({ messages: 2000 }).map((post) => post.sort))).toEqual(new Set(sorts));
});

test("even when every event is held back, no more wait than the window holds", () => {
  const mix = { ...plainMix, outOfOrder: 1 };
  const run = scenario({ seed: 1, start, messages: 100_000, mix, window: 10, alive: 1 });
  const first = run.next().value as Post;
  // Were all held back to the end, the first one out would be of a message born much later.
  expect(Date.parse(JSON.parse(first.body.toString()).createdAt) - start).toBeLessThan(100);
});
