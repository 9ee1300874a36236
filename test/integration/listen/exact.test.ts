import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { metaChange, metaSource, metaStatus, postMeta } from "../../harness/meta-posts.ts";
import { postEvent } from "../../harness/post-event.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken, webhookSecret } from "../../harness/relay-settings.ts";
import { runHere } from "../../harness/run-here.ts";
import { until } from "../../harness/until.ts";
import { signature } from "../http/raw-client.ts";
import { startListen, startListenHere } from "./listener.ts";
import { openLocalServer, type Post } from "./local-server.ts";

const at = "2026-11-21T12:00:00.000Z";
/** Bytes that a JSON parser and serialiser on the way would change. */
const bodies = [
  `{"id":"e-1","event":"message.status","createdAt":"${at}","data":{"wamid":"wamid.A","status":"sent","note":"caf\\u00e9 \\/ \\ud83d\\ude00"}}`,
  `{ "data" : { "status":"delivered",   "wamid":"wamid.A" }, "event":"message.status",\t"createdAt":"${at}",\n "id":"e-2" }\r\n`,
  `{"id":"e-3","event":"message.status","createdAt":"${at}","data":{"wamid":"wamid.A","big":12345678901234567890,"exact":1.0,"exponent":1E+2,"b":1,"a":2,"a":3}}`,
  `{"id":"e-4","event":"message.status","createdAt":"${at}","data":{"wamid":"wamid.A","status":"read","text":"Año — 😀 \u2028"}}`,
];

const proved = ({ body, headers }: Post): boolean =>
  headers["x-acme-signature"] === signature(body);

test("delivers the received bytes and signature, which verify with the account's own secret", async () => {
  const relay = await startRelayHere();
  const local = await openLocalServer();
  const listener = startListen(relay.url, ["--forward-to", local.url, "-H", "x-team: support"]);
  await listener.live();
  for (const body of bodies)
    expect((await postEvent(relay.webhookUrl, Buffer.from(body))).word).toBe("accepted");
  await until("all came", () => local.posts.length === bodies.length);
  expect(local.posts.map(({ body }) => body.toString("utf8"))).toEqual(bodies);
  expect(local.posts.map(proved)).toEqual(bodies.map(() => true));
  expect(local.posts[0]?.headers).toMatchObject({
    "content-type": "application/json",
    "x-team": "support",
    "webhook-id": "e-1",
    "webhook-attempt": "1",
    "x-wamid-relay-event": "message.status",
  });
  expect(local.posts[0]?.headers).not.toHaveProperty("webhook-signature");
  // The check can fail: re-serialised, the second is no longer proved.
  const [, second] = local.posts as [Post, Post];
  expect(
    proved({ ...second, body: Buffer.from(JSON.stringify(JSON.parse(second.body.toString()))) }),
  ).toBe(false);

  expect(listener.out()).toMatch(
    /^\d\d:\d\d:\d\d --> message\.status sent \[e-1\] wamid:[0-9a-f]{12} from main$/m,
  );
  expect(listener.out()).toMatch(
    new RegExp(
      `^\\d\\d:\\d\\d:\\d\\d <-- \\[200\\] POST http://localhost:${local.port}/hook \\[e-1\\] \\d+ms$`,
      "m",
    ),
  );
  expect(listener.out()).not.toContain("wamid.A");
});

test("signs again with the secret given", async () => {
  const relay = await startRelayHere();
  const local = await openLocalServer();
  const given = startListenHere(relay.url, [
    "--forward-to",
    local.url,
    "--secret",
    "whsec_c2VjcmV0LW9mLXRoaXMtbWFjaGluZQ==",
  ]);
  await given.live();
  await postEvent(relay.webhookUrl, Buffer.from(bodies[0] as string));
  await until("it came", () => local.posts.length === 1);
  const verify = (key: string, { body, headers }: Post) =>
    new Webhook(key).verify(body.toString("utf8"), headers as Record<string, string>);
  const [first] = local.posts as [Post];
  verify("whsec_c2VjcmV0LW9mLXRoaXMtbWFjaGluZQ==", first);
  expect(() => verify("whsec_YW5vdGhlci1zZWNyZXQtb2YtdGVzdHM=", first)).toThrow();
  expect(proved(first)).toBe(true);
});

test("signs each item of Meta's requests with the app secret given", async () => {
  const relay = await startRelayHere({
    settings: { sources: { wa: { ...metaSource, account: "main" } } },
  });
  const local = await openLocalServer();
  const own = "an app secret of this machine";
  const listener = startListenHere(relay.url, ["--forward-to", local.url, "--app-secret", own]);
  await listener.live();
  const statuses = [metaStatus("wamid.A", "sent"), metaStatus("wamid.B", "read")];
  await postMeta(relay, metaChange({ statuses }));
  await until("both came", () => local.posts.length === 2);
  for (const { body, headers } of local.posts)
    expect(headers["x-hub-signature-256"]).toBe(
      `sha256=${createHmac("sha256", own).update(body).digest("hex")}`,
    );
});

test("posts each source to its own path, and an automation's request with its exact bytes", async () => {
  const signed = { service: "acme", secrets: [webhookSecret] };
  const relay = await startRelayHere({
    settings: {
      sources: {
        main: { account: "main", signature: signed },
        flows: { account: "main", kind: "automation-request", mode: "ack", signature: signed },
        others: { account: "main", signature: signed },
      },
    },
  });
  const local = await openLocalServer();
  const base = `http://127.0.0.1:${local.port}`;
  const listener = startListenHere(relay.url, [
    "--forward-to",
    `main=${base}/a?b=c`,
    "--forward-to",
    `flows=${base}/flows`,
  ]);
  await listener.live();
  const bytes = Buffer.from([0, 255, 254, 10, 13]);
  const headers = {
    "x-acme-signature": signature(bytes),
    "content-type": "text/x-odd; charset=latin1",
    "content-encoding": "x-odd",
  };
  await postEvent(`${relay.url}/webhooks/others`, Buffer.from(bodies[1] as string));
  await fetch(`${relay.url}/webhooks/flows`, {
    method: "POST",
    headers,
    body: new Uint8Array(bytes),
  });
  await postEvent(relay.webhookUrl, Buffer.from(bodies[0] as string));
  await until("both came", () => local.posts.length === 2);
  expect(local.posts.map(({ headers: got }) => got["content-encoding"])).toContain("x-odd");
  expect(
    local.posts.map(({ path, body, headers: got }) => [
      path,
      body.toString("hex"),
      got["content-type"],
    ]),
  ).toEqual([
    ["/flows", bytes.toString("hex"), "text/x-odd; charset=latin1"],
    ["/a?b=c", Buffer.from(bodies[0] as string).toString("hex"), "application/json"],
  ]);
  expect(local.posts.map(proved)).toEqual([true, true]);
  // In brackets, because a random id can contain the same letters.
  expect(listener.out()).toContain("[e-1]");
  expect(listener.out()).not.toContain("[e-2]");
});

test("filters events, and --json prints them, without wamids and bodies unless --show-pii is given", async () => {
  const source = { account: "main", signature: { service: "acme", secrets: [webhookSecret] } };
  const relay = await startRelayHere({ settings: { sources: { main: source, another: source } } });
  const registered = { account: "main", wamid: "wamid.REGISTERED0001" };
  await relay.ask("/v1/messages/track", { method: "POST", body: registered });
  const make = (id: string, event: string, data: object) =>
    Buffer.from(JSON.stringify({ id, event, createdAt: at, data }));
  for (const body of [
    make("f-1", "message.status", {
      wamid: "wamid.STRANGER000001",
      status: "failed",
      errorCode: 131026,
    }),
    make("f-2", "message.status", { wamid: registered.wamid, status: "sent" }),
    make("f-3", "automation.completed", { runId: "r-1" }),
    make("f-4", "message.status", {
      wamid: registered.wamid,
      status: "failed",
      errorCode: "131047",
    }),
  ])
    await postEvent(relay.webhookUrl, body);
  await postEvent(
    `${relay.url}/webhooks/another`,
    make("f-5", "template.status", { status: "approved" }),
  );
  // No event, and nobody's to take.
  expect((await postEvent(relay.webhookUrl, Buffer.from("{}"))).word).toBe("quarantined");

  const first = startListen(relay.url, ["--json", "--since", "1h", "--show-pii"]);
  await until("all came", () => first.said("event").length === 5);
  expect(first.said("event").map(({ id, body }) => [id, typeof body])).toEqual(
    ["f-1", "f-2", "f-3", "f-4", "f-5"].map((id) => [id, "string"]),
  );
  await first.stop();
  const cases: [string[], string[]][] = [
    [
      ["--events", "message.*"],
      ["f-1", "f-2", "f-4"],
    ],
    [["--events", "automation.completed"], ["f-3"]],
    [
      ["--status", "failed,read"],
      ["f-1", "f-4"],
    ],
    [["--tracked"], ["f-2", "f-4"]],
    [["--source", "main", "--where", '{"errorCode":{"$in":["131026",131026]}}'], ["f-1"]],
    [["--source", "another"], ["f-5"]],
  ];
  await Promise.all(
    cases.map(async ([args, wanted]) => {
      const listener = startListenHere(relay.url, ["--json", "--since", "1h", ...args]);
      await until(
        `all came of ${args}`,
        () => listener.said("event").length >= wanted.length && listener.said("hello").length === 1,
      );
      expect([args, listener.said("event").map(({ id }) => id)]).toEqual([args, wanted]);
      expect(listener.out()).not.toContain("wamid.");
      expect(await listener.stop()).toBe(0);
    }),
  );
});

test("exits with 2 on wrong usage and with 1 when the relay refuses", async () => {
  const relay = await startRelayHere();
  const cases: [string[], number, string][] = [
    [["--forward-to", "http://192.168.1.7:3000/hook"], 2, "add --allow-remote"],
    [["--forward-to", "http://localhost.example:3000/hook"], 2, "add --allow-remote"],
    [["--forward-to", "relay.example:3000"], 2, "takes an http or https URL"],
    [["--forward-to", "localhost"], 2, "takes an http or https URL"],
    // Addresses of this machine need no "http://".
    [
      ["--forward-to", "localhost:1", "--forward-to", "127.0.0.1:2/hook"],
      2,
      "two URLs for the same events",
    ],
    [
      ["--forward-to", "main=localhost:1", "--forward-to", "main=[::1]:2/a?b=c"],
      2,
      "two URLs for the source main",
    ],
    [
      ["--forward-to", "http://localhost:1", "--forward-to", "http://localhost:2"],
      2,
      "two URLs for the same events",
    ],
    [
      ["--forward-to", "http://localhost:1", "-H", "webhook-id: mine"],
      2,
      "is set by the relay itself",
    ],
    [["--forward-to", "http://localhost:1", "--secret", "whsec_%"], 2, "is not base64"],
    [["--max-attempts", "2"], 2, "--max-attempts is for --forward-to"],
    [["--since", "1h", "--latest"], 2, "cannot be used with"],
    [["--where", "{"], 2, "error: --where: is not valid JSON"],
    [["--as", "ana maria"], 2, "error: --as: is not a name"],
    [["--where", '{"a":{"$what":1}}'], 2, "is not an operator"],
    [["--token-env", "WRONG"], 1, "unknown token"],
    [["--token-env", "NOT_SET_HERE"], 2, "the environment variable NOT_SET_HERE is not set"],
  ];
  for (const [args, code, told] of cases) {
    const env = { RELAY_TOKEN: relayToken, WRONG: "not-a-known-token-at-all" };
    expect(await runHere(["listen", "--relay", relay.url, ...args], env)).toMatchObject({
      code,
      err: expect.stringContaining(told),
    });
  }
  const remote = startListenHere(relay.url, [
    "--allow-remote",
    "--forward-to",
    "http://192.0.2.1:3000/hook",
    "--latest",
  ]);
  await remote.live();
});
