import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { maskWamid } from "../../../src/model/mask.ts";
import { type Downstream, startDownstream } from "../../../src/sandbox/downstream.ts";
import { bodyOf, type SandboxEvent } from "../../../src/sandbox/events/publisher.ts";
import { statsOf } from "../../harness/ask-relay.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { makeRelayHere, type RelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { runHere } from "../../harness/run-here.ts";
import { until } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { jsonOf, runOn, runProcessOn, runRemote } from "./run-cli.ts";

interface Listed {
  data: {
    seq: number;
    id: string | null;
    status: string | null;
    subject: { key: string } | null;
    disposition: string;
  }[];
  next: number | null;
}

let relay: RelayHere;
let downstream: Downstream;
const messages = createMessages("looking");
const phone = "+5491123456789";
const wamid = messages.wamid();
const sent = messages.status(wamid, "sent");
const failed: SandboxEvent = {
  ...messages.status(wamid, "failed"),
  data: { wamid, status: "failed", errorCode: 131026, to: phone, note: "\u001b[2Jcleared\u202e" },
};

beforeAll(async () => {
  downstream = await startDownstream();
  relay = await makeRelayHere({
    settings: {
      routes: [
        routeTo(`${downstream.url}/all`),
        routeTo(`${downstream.url}/refused`, {
          name: "refused",
          match: { statuses: ["failed"] },
          to: { retry: { schedule: ["0s"] } },
        }),
      ],
    },
  });
  downstream.fail({ status: 422 }, "/refused");
  await relay.start();
  for (const event of [sent, failed]) await postEvent(relay.webhookUrl, event);
  await postEvent(relay.webhookUrl, sent);
  await postEvent(relay.webhookUrl, Buffer.from('{"no":"envelope"}'));
  await until("all is settled", async () => {
    const { delivered, dead } = (await statsOf(relay)).deliveries;
    return delivered === 2 && dead === 1;
  });
});
afterAll(async () => {
  await relay.dispose();
  await downstream.close();
});

describe("events list", () => {
  test("notes a message of the name of which no event has come", async () => {
    const silent = messages.wamid();
    const body = { wamid: silent, reference: "order-77" };
    await relay.ask("/v1/messages/track", { method: "POST", body });
    const { out, err } = await runOn(relay, "events", "list", "--query", "order-77");
    expect(out.trim().split("\n")).toHaveLength(1);
    expect(err).toBe(
      `note: a message has this name, without a status: wamid-relay explain ${maskWamid(silent)}\n`,
    );
    const elsewhere = ["events", "list", "--query", "order-77", "--account", "elsewhere"];
    expect((await runOn(relay, ...elsewhere)).err).not.toContain("has this name");
    // A search takes at most 1,024 characters.
    const long = await runOn(relay, "events", "list", "--query", "x".repeat(1_100));
    expect([long.code, long.err]).toEqual([0, ""]);
  });

  test("lists newest first with masked wamids, beside a running relay", async () => {
    const { code, out, err } = await runProcessOn(relay, "events", "list");
    expect([code, err]).toEqual([0, ""]);
    const lines = out.trimEnd().split("\n");
    expect(lines.map((line) => line.split(/ {2,}/)[1])).toEqual(["SEQ", "3", "2", "1"]);
    expect(lines[2]).toContain(maskWamid(wamid));
    expect(out).not.toContain(wamid);
  });

  test("shows the account, and why a message failed", async () => {
    const { out } = await runOn(relay, "events", "list", "--status", "failed");
    expect(out.split("\n")[1]).toMatch(/ failed 131026 .* main /);
  });

  test("shows the deliveries of each event by state", async () => {
    const { out } = await runOn(relay, "events", "list");
    const [head = "", ...lines] = out.trimEnd().split("\n");
    const from = head.indexOf("DELIVERIES");
    expect(lines.map((line) => line.slice(from, head.indexOf("ABOUT")).trim())).toEqual([
      "",
      "1 delivered, 1 dead",
      "1 delivered",
    ]);
    const { data } = jsonOf<{ data: { deliveries: object }[] }>(
      await runRemote(relay, "events", "list", "--json"),
    );
    expect(data.map(({ deliveries }) => deliveries)).toEqual([
      {},
      { delivered: 1, dead: 1 },
      { delivered: 1 },
    ]);
  });

  test.each([
    [["events", "list", "--status", "faild"], 'unknown status "faild" (did you mean failed?)'],
    [
      ["events", "list", "--event", "mesage.status"],
      'unknown event kind "mesage.status" (did you mean message.status?)',
    ],
    [
      ["events", "list", "--event", "template.statsu"],
      'unknown event kind "template.statsu" (did you mean template.status?)',
    ],
    [
      ["events", "list", "--source", "mian"],
      'unknown source "mian" (did you mean main? there are: main)',
    ],
    [["events", "list", "--account", "other"], 'unknown account "other" (there are: main)'],
    [
      ["deliveries", "list", "--route", "refusd"],
      'unknown route "refusd" (did you mean refused? there are: everything, refused)',
    ],
  ])("says what was probably meant when it finds nothing: %j", async (args, note) => {
    const { code, out, err } = await runOn(relay, ...args);
    expect([code, err]).toEqual([0, `note: ${note}\n`]);
    expect(out.split("\n")).toHaveLength(2);
  });

  test("takes the kinds of Meta's webhooks for known ones, also those of other fields", async () => {
    for (const kind of ["message.received", "template.*", "meta.security_alert", "meta.*"])
      expect([kind, (await runOn(relay, "events", "list", "--event", kind)).err]).toEqual([
        kind,
        "",
      ]);
  });

  test("prints the same JSON from the file and over HTTP", async () => {
    const fromFile = await runOn(relay, "events", "list", "--json");
    const remote = await runRemote(relay, "events", "list", "--json");
    expect(remote).toEqual(fromFile);
    expect(
      jsonOf<Listed>(fromFile).data.map(({ seq, subject }) => [seq, subject?.key ?? null]),
    ).toEqual([
      [3, null],
      [2, maskWamid(wamid)],
      [1, maskWamid(wamid)],
    ]);
  });

  test.each([
    [["--status", "failed"], [2]],
    [
      [
        "--event",
        "message.status",
        "--source",
        "main",
        "--account",
        "main",
        "--wamid",
        wamid,
        "--since",
        "1h",
      ],
      [2, 1],
    ],
    [["--disposition", "quarantined", "--before", "4"], [3]],
    [["--to", "2026-01-01"], []],
  ])("filters by %j", async (filter, seqs) => {
    expect(
      jsonOf<Listed>(await runOn(relay, "events", "list", "--json", ...filter)).data.map(
        ({ seq }) => seq,
      ),
    ).toEqual(seqs);
  });

  test("--before takes the next page until it is null", async () => {
    const seqs: number[] = [];
    let page = jsonOf<Listed>(await runOn(relay, "events", "list", "--json", "--limit", "2"));
    for (;;) {
      seqs.push(...page.data.map(({ seq }) => seq));
      if (page.next === null) break;
      page = jsonOf<Listed>(
        await runOn(
          relay,
          "events",
          "list",
          "--json",
          "--limit",
          "2",
          "--before",
          String(page.next),
        ),
      );
    }
    expect(seqs).toEqual([3, 2, 1]);
  });
});

describe("events show", () => {
  test("shows everything without personal data and terminal control characters", async () => {
    const { code, out } = await runProcessOn(relay, "events", "show", failed.id);
    expect(code).toBe(0);
    for (const told of [
      "verified by secret ",
      "sent → failed (a transition)",
      "error code  131026: The person cannot be reached: no account on the network, its terms not accepted, or an outdated app.",
      "everything: matched every criterion",
      "delivery to refused: dead",
      "1. ",
      "answered 422",
      "| failing on request",
      maskWamid(wamid),
      "[phone]",
    ]) {
      expect(out).toContain(told);
    }
    expect(out).not.toContain(wamid);
    expect(out).not.toContain(phone.slice(1));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that there are none is the point
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    expect((await runOn(relay, "events", "show", "2", "--show-pii")).out).toContain(phone);
  });

  test("shows duplicates, and why a route did not match", async () => {
    const { out } = await runOn(relay, "events", "show", "1");
    expect(out).toMatch(/duplicates +1\n/);
    expect(out).toMatch(/refused: did not match: it takes other statuses/);
  });

  test("shows why an event is quarantined", async () => {
    const { out } = await runOn(relay, "events", "show", "3");
    expect(out).toContain("quarantined");
    expect(out).toMatch(
      /disposition quarantined: id is missing; event is missing; data is missing\n/,
    );
  });

  test("--body prints the exact bytes, and --json is valid and masks phones unless told otherwise", async () => {
    expect((await runProcessOn(relay, "events", "show", "2", "--body")).out).toBe(
      bodyOf(failed).toString("utf8"),
    );
    const masked = await runOn(relay, "events", "show", "2", "--json");
    expect(Buffer.from(jsonOf<{ body: string }>(masked).body, "base64").toString()).toBe(
      jsonOf<{ text: string }>(masked).text,
    );
    expect(masked.out).not.toContain(phone.slice(1));
    expect(masked.out).not.toContain("\u202e");
    const clear = jsonOf<{ body: string; text: string }>(
      await runRemote(relay, "events", "show", "2", "--json", "--show-pii"),
    );
    expect(Buffer.from(clear.body, "base64")).toEqual(bodyOf(failed));
    expect(clear.text).toBe(bodyOf(failed).toString("utf8"));
  });

  test("prints one line on stderr for an unknown event, with the command that finds events", async () => {
    const err =
      'wamid-relay: no such event; "wamid-relay events list --query" finds events by id, reference, user id or the last digits of a phone\n';
    expect(await runOn(relay, "events", "show", "no-such-event")).toEqual({
      code: 1,
      out: "",
      err,
    });
  });
});

test.each([
  ["events", 3],
  ["deliveries", 3],
])("%s list: a page with exactly the last rows is the last one", async (what, count) => {
  const page = async (limit: number) =>
    jsonOf<Listed>(await runOn(relay, what, "list", "--limit", String(limit), "--json"));
  expect((await page(count)).data).toHaveLength(count);
  expect([(await page(count)).next === null, (await page(count - 1)).next === null]).toEqual([
    true,
    false,
  ]);
});

test.each([
  [["events", "list", "--request", "abc"], "--request: is not a digest of 64 hex digits"],
  [
    ["events", "list", "--wamid", "a", "--query", "b"],
    "option '--wamid <wamid>' cannot be used with option '--query <name>'",
  ],
  [["explain", "x", "--limit", "500"], "--limit: must be at most 200"],
  [["deliveries", "list", "--cause", "x".repeat(65)], "--cause: must have at most 64 characters"],
  [["replay", "--event", "5"], "--event: only with disposition: quarantined or unassigned"],
  [
    ["replay", "--disposition", "quarantined", "--route", "r"],
    "--route: does not apply to quarantined events",
  ],
  [["track", "--wamid", "w", "--id", "x".repeat(2_000)], "--id: must have at most 256 characters"],
  [["send", "--to", "nobody", "--text", "hola"], "--to: is not in international format"],
  [["listen", "--since", "soon"], "--since: is not a duration"],
])("a value that the relay refuses is wrong usage of the option: %j", async (args, told) => {
  const { code, out, err } = await runOn(relay, ...args);
  expect([code, out, err]).toEqual([2, "", expect.stringContaining(`error: ${told}`)]);
});

describe("deliveries list", () => {
  test("by state and route", async () => {
    const { data } = jsonOf<{ data: { route: string; state: string; reason: string }[] }>(
      await runProcessOn(relay, "deliveries", "list", "--state", "dead", "--json"),
    );
    expect(data).toMatchObject([
      { route: "refused", state: "dead", reason: expect.stringContaining("422") },
    ]);
    const { out } = await runRemote(relay, "deliveries", "list", "--route", "everything");
    expect(out.trimEnd().split("\n")).toHaveLength(3);
  });

  test("a page that ends within an event continues within it", async () => {
    const first = jsonOf<{ data: { id: string }[]; next: string }>(
      await runOn(relay, "deliveries", "list", "--json", "--limit", "1"),
    );
    const rest = jsonOf<{ data: { id: string }[]; next: null }>(
      await runOn(relay, "deliveries", "list", "--json", "--before", first.next),
    );
    expect(new Set([...first.data, ...rest.data].map(({ id }) => id)).size).toBe(3);
    expect(rest.next).toBeNull();
  });
});

test("prints one line without a store", async () => {
  const empty = await makeRelayHere();
  const { code, out, err } = await runOn(empty, "events", "list");
  expect([code, out]).toEqual([1, ""]);
  expect(err).toBe(
    `wamid-relay: there is no store at ${empty.storePath} yet; "wamid-relay serve" makes it\n`,
  );
});

test("does not call a store missing that it cannot look at", async () => {
  const { folder } = await makeRelayHere();
  symlinkSync("loop", join(folder, "loop"));
  const own = await makeRelayHere({ storePath: join(folder, "loop", "relay.db") });
  expect(await runOn(own, "events", "list")).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^wamid-relay: \S+relay\.db cannot be reached; check the rights/),
  });
  const { out } = await runOn(own, "doctor", "--offline");
  expect(out).toMatch(/^fail {2}store +\S+relay\.db cannot be reached; .* → run doctor/m);
});

test("prints one line for an unknown token, another server, and no server", async () => {
  const wrong = await runHere(["events", "list", "--relay", relay.url], {
    RELAY_TOKEN: "some-other-token-000",
  });
  expect(wrong).toEqual({
    code: 1,
    out: "",
    err: expect.stringMatching(
      /^wamid-relay: the relay refuses the token \(unknown token\): .*SIGHUP.*\n$/,
    ),
  });
  const stranger = await runHere(["events", "list", "--relay", downstream.url], {
    RELAY_TOKEN: "some-other-token-000",
  });
  expect([stranger.code, stranger.out]).toEqual([1, ""]);
  expect(stranger.err).toMatch(/^wamid-relay: what answers at \S+ is no wamid-relay\n$/);
  const free = `http://127.0.0.1:${await freePort()}`;
  const nobody = await runHere(["events", "list", "--relay", free], {
    RELAY_TOKEN: "some-other-token-000",
  });
  expect(nobody).toEqual({
    code: 1,
    out: "",
    err: `wamid-relay: no answer from ${free} (ECONNREFUSED): start the relay there, or open the tunnel to it\n`,
  });
});
