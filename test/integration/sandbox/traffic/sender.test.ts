import { createHmac } from "node:crypto";
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { parseEnvelope } from "../../../../src/model/envelope.ts";
import { createJudge, type Post } from "../../../../src/sandbox/traffic/answers.ts";
import { plainMix, scenario } from "../../../../src/sandbox/traffic/scenario.ts";
import { createSender, type SenderSettings } from "../../../../src/sandbox/traffic/sender.ts";
import { startTestServer } from "../test-server.ts";

const secret = "a secret of the webhook";
const json = (
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
) =>
  void response
    .writeHead(status, { "content-type": "application/json", ...headers })
    .end(JSON.stringify(body));
const accepted = (response: ServerResponse) => json(response, 200, { status: "accepted" });

const somePosts = (messages = 1, mix = plainMix): Post[] => [
  ...scenario({ seed: 5, start: Date.UTC(2026, 10, 1), messages, mix }),
];
const firstPost = () => somePosts()[0] as Post;

function openSender(url: string, settings: Partial<SenderSettings> = {}) {
  const sender = createSender({
    url: `${url}/webhooks/main`,
    signature: { service: "acme" },
    secret,
    concurrency: 4,
    retry: { tries: 4, waitMs: 1 },
    ...settings,
  });
  return Object.assign(sender, { [Symbol.asyncDispose]: () => sender.close() });
}

const hmac = (body: Buffer) => createHmac("sha256", secret).update(body).digest("hex");

test("posts the very bytes, with the service's signature over them", async () => {
  const server = await startTestServer(accepted);
  await using sender = openSender(server.url);
  const post = firstPost();
  expect(await sender.post(post)).toMatchObject({
    kind: "answered",
    status: 200,
    answer: "accepted",
    tries: 1,
  });
  const [seen] = server.seen;
  expect(seen).toMatchObject({
    method: "POST",
    path: "/webhooks/main",
    headers: { "content-type": "application/json" },
  });
  expect(seen?.body.equals(post.body)).toBe(true);
  expect(seen?.headers["x-acme-signature"]).toMatch(new RegExp(`^(sha256=)?${hmac(post.body)}$`));
});

test("a connection cut and a 503 are tried again, signed anew", async () => {
  const server = await startTestServer((response, _request, count) => {
    if (count === 1) response.socket?.resetAndDestroy();
    else if (count === 2) json(response, 503, { error: "full" });
    else accepted(response);
  });
  await using sender = openSender(server.url);
  expect(await sender.post(firstPost())).toMatchObject({ answer: "accepted", tries: 3 });
});

test("gives up after the last try and says why", async () => {
  const server = await startTestServer((response, { path }) =>
    path.includes("reset")
      ? void response.socket?.resetAndDestroy()
      : json(response, 500, { error: "x" }),
  );
  await using sender = openSender(server.url);
  expect(await sender.post(firstPost())).toMatchObject({
    kind: "answered",
    status: 500,
    answer: null,
    tries: 4,
  });
  await using other = openSender(server.url, { url: `${server.url}/reset` });
  expect(await other.post(firstPost())).toMatchObject({ kind: "unanswered", tries: 4 });
  expect(server.seen.length).toBe(8);
});

test.each([400, 401, 404, 413, 429])("%i is not tried again", async (status) => {
  const server = await startTestServer((response, _request, count) =>
    count === 1
      ? json(response, status, { error: "no" }, { "retry-after": "1" })
      : accepted(response),
  );
  await using sender = openSender(server.url);
  expect(await sender.post(firstPost())).toMatchObject({ kind: "answered", status, tries: 1 });
  // The pipe is alive: the next post arrives.
  expect(await sender.post(firstPost())).toMatchObject({ answer: "accepted" });
  expect(server.seen.length).toBe(2);
});

test("a server that does not answer costs one timeout a try", async () => {
  const server = await startTestServer((response, _request, count) => {
    if (count > 1) accepted(response);
  });
  await using sender = openSender(server.url, { timeoutMs: 200, retry: { tries: 100, waitMs: 1 } });
  const { tries, ...result } = await sender.post(firstPost());
  expect(result).toMatchObject({ answer: "accepted" });
  // More than two where the machine was too slow for a second one.
  expect(tries).toBeGreaterThanOrEqual(2);
});

/** A relay in twenty lines: proves, reads and dedupes in memory. */
function tinyRelay() {
  const known = new Set<string>();
  let inHand = 0;
  let mostInHand = 0;
  const server = startTestServer((response, { headers, body }) => {
    inHand += 1;
    mostInHand = Math.max(mostInHand, inHand);
    setImmediate(() => {
      inHand -= 1;
      if (String(headers["x-acme-signature"]).replace("sha256=", "") !== hmac(body))
        return json(response, 401, { error: "bad signature" });
      const parsed = parseEnvelope(body);
      if (!parsed.ok) return json(response, 202, { status: "quarantined", error: parsed.error });
      const isNew = !known.has(parsed.envelope.id);
      known.add(parsed.envelope.id);
      return json(response, 200, { status: isNew ? "accepted" : "duplicate" });
    });
  });
  return { server, known, mostInHand: () => mostInHand };
}

test("a whole scenario gets the answers it expects, and the summary adds up", async () => {
  const relay = tinyRelay();
  const server = await relay.server;
  await using sender = openSender(server.url, { concurrency: 8 });
  const mix = {
    ...plainMix,
    outOfOrder: 0.2,
    duplicated: 0.3,
    altered: 0.1,
    automation: 0.1,
    truncated: 0.1,
    malformed: 0.2,
    wronglySigned: 0.2,
  };
  const posts = somePosts(100, { ...mix, campaign: 0.02 });
  const judge = createJudge("relay");
  const faults: (string | null)[] = [];
  const summary = await sender.run(posts, {
    onResult: (post, result) => faults.push(judge.note(post, result)),
  });
  expect([...faults.filter((fault) => fault !== null), ...judge.ended()]).toEqual([]);
  const ids = new Set(
    posts.flatMap(({ expected }) => (expected.of === "event" ? [expected.id] : [])),
  );
  expect(relay.known).toEqual(ids);
  expect(summary).toMatchObject({
    posts: posts.length,
    accepted: ids.size,
    duplicate: posts.filter(({ expected }) => expected.of === "event").length - ids.size,
    quarantined: posts.filter(({ sort }) => sort === "malformed").length,
    unauthorized: posts.filter(({ sort }) => sort === "wrongly-signed").length,
  });
  expect(relay.mostInHand()).toBeLessThanOrEqual(8);
  expect(relay.mostInHand()).toBeGreaterThan(1);
});

test("the check of a scenario's answers can fail: a relay that dedupes nothing is found out", async () => {
  const server = await startTestServer(accepted);
  await using sender = openSender(server.url);
  const judge = createJudge("relay");
  await sender.run(somePosts(50, { ...plainMix, duplicated: 0.3 }), { onResult: judge.note });
  expect(judge.ended().length).toBeGreaterThan(0);
});

test("an abort ends the run between posts, and what was answered is kept", async () => {
  const abort = new AbortController();
  const server = await startTestServer((response, _request, count) => {
    if (count === 10) abort.abort();
    accepted(response);
  });
  await using sender = openSender(server.url, { concurrency: 2 });
  let answered = 0;
  const summary = await sender.run(somePosts(100), {
    signal: abort.signal,
    onResult: () => (answered += 1),
  });
  expect(summary.posts).toBeGreaterThanOrEqual(10);
  expect(summary.posts).toBeLessThan(15);
  expect(answered).toBe(summary.posts);
});
