import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { triggerScenarios } from "../../../src/sandbox/traffic/scenario.ts";
import { makeRelayHere, type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { entry } from "../../harness/relay-process.ts";
import { webhookSecret } from "../../harness/relay-settings.ts";
import { runHere } from "../../harness/run-here.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { freePort } from "../../setup/free-port.ts";
import { signature } from "../http/raw-client.ts";
import { startTestServer } from "../sandbox/test-server.ts";
import { jsonOf, runOn, runProcessOn } from "./run-cli.ts";

interface Printed {
  readonly url: string;
  readonly posts: number;
  readonly answers: Record<string, number>;
  readonly unexpected: number;
  readonly faults: string[];
  readonly events: {
    id: string | null;
    event: string;
    wamid: string | null;
    runId: string | null;
    answer: string;
    sort: string;
  }[];
  readonly eventsLeftOut: number;
}
interface Shown {
  readonly event: string;
  readonly status: string | null;
  readonly errorCode: string | null;
  readonly disposition: string;
  readonly duplicates: number;
  readonly text: string;
}

const folder = tempFolder();
let relay: RelayHere;

beforeAll(async () => {
  const signature = (...secrets: string[]) => ({ service: "acme", secrets });
  relay = await makeRelayHere({
    settings: {
      sources: {
        main: { account: "main", signature: signature(webhookSecret) },
        wa: {
          format: "meta",
          accounts: { "206540352242922": "main" },
          signature: { secrets: ["an app secret of Meta"] },
        },
        flows: {
          account: "main",
          kind: "automation-request",
          mode: "ack",
          signature: signature("ats_of-the-harness"),
        },
      },
    },
  });
  await relay.start();
});
afterAll(() => relay.dispose());

const trigger = (...args: string[]) => runOn(relay, "trigger", ...args);
const triggered = async (...args: string[]) => jsonOf<Printed>(await trigger(...args, "--json"));
const shown = async (id: string | null | undefined) =>
  jsonOf<Shown>(await runOn(relay, "events", "show", String(id), "--json", "--show-pii"));

describe("one event to the relay of the settings", () => {
  test("prints the answer, the id and the wamid, and then the sum", async () => {
    const { code, out, err } = await runProcessOn(relay, "trigger", "message.status");
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(
      /^200 accepted +message\.status delivered {2}[0-9a-f-]{36} {2}wamid\.\S+ {2}\d+ ms\n1 post in \d\.\d s: 1 accepted\n$/,
    );
  });

  test("posts an automation request to the source of its kind, signed with its token", async () => {
    const { url, events } = await triggered("automation-request");
    expect(url).toBe(`${relay.url}/webhooks/flows`);
    expect(events).toMatchObject([{ id: null, event: "automation.request", answer: "accepted" }]);
  });

  test("--set changes the posted JSON, and rejects an unknown path", async () => {
    const { events } = await triggered(
      ..."message.status --set data.status=failed --set data.errorCode=131047 --set data.note=a=b".split(
        " ",
      ),
    );
    const { status, errorCode, text } = await shown(events[0]?.id);
    expect([status, errorCode]).toEqual(["failed", "131047"]);
    expect(text).toContain('"status": "failed","errorCode":131047,"note":"a=b"');
    expect(await trigger("message.status", "--set", "data.status.x=1")).toEqual({
      code: 1,
      out: "",
      err: 'wamid-relay: --set: "x" is not inside an object\n',
    });
  });

  test("--keep-ids posts the file's exact bytes, so a second post is a duplicate", async () => {
    const text =
      '{"id" : "kept-1","event":"message.reaction","createdAt":"2026-11-21T12:00:00.000Z","data":{"wamid":"wamid.HBgNNTQ5MTE1NTU1MDE5OA==","n":12345678901234567890,"e":"\\u00e9\\/"}}';
    writeFileSync(join(folder, "kept.json"), text);
    const first = await trigger("kept", "--fixtures", folder, "--keep-ids");
    expect(first.code).toBe(0);
    expect(first.out).toMatch(/^200 accepted +message\.reaction {2}kept-1 {2}wamid:[0-9a-f]{12} /);
    expect((await shown("kept-1")).text).toBe(text);
    expect((await triggered("kept", "--fixtures", folder, "--keep-ids")).answers).toEqual({
      duplicate: 1,
    });
  });

  test("expects quarantine for what is not an envelope", async () => {
    writeFileSync(join(folder, "broken-envelope.json"), '{"id":7}');
    expect((await triggered("broken-envelope", "--fixtures", folder)).answers).toEqual({
      quarantined: 1,
    });
  });
});

describe("a request of Meta's to the source with its format", () => {
  test.each([
    ["meta.status", { event: "message.status", status: "delivered" }],
    ["meta.status.failed", { event: "message.status", status: "failed", errorCode: "131026" }],
    ["meta.message", { event: "message.received" }],
    ["meta.batch", { event: "message.status", status: "delivered" }],
  ])("%s is stored as its events, for a number of the source", async (name, stored) => {
    const { url, unexpected, answers, events } = await triggered(name);
    expect([url, unexpected, answers]).toEqual([`${relay.url}/webhooks/wa`, 0, { accepted: 1 }]);
    expect(await shown(events[0]?.id)).toMatchObject({ ...stored, source: "wa", account: "main" });
  });

  test("--wamid and --set change it", async () => {
    const wamid = "wamid.HBgNNTQ5MTE1NTU1MDE5Nw==";
    const set = "entry.0.changes.0.value.statuses.0.status=read";
    const { events } = await triggered("meta.status", "--wamid", wamid, "--set", set);
    expect(await shown(events[0]?.id)).toMatchObject({ status: "read", subject: { key: wamid } });
  });

  test("has no data that --set could change", async () => {
    const { code, err } = await trigger("meta.status", "--set", "data.status=failed");
    expect([code, err]).toEqual([1, expect.stringContaining("a request of Meta's has no data")]);
  });

  test("for a number that no account has is unassigned, which is not expected", async () => {
    const { code, out } = await trigger("meta.status", "--phone-number-id", "306540352242922");
    expect([code, out]).toEqual([1, expect.stringContaining("accepted expected, got unassigned")]);
  });
});

test("names the sample of the format that the relay has", async () => {
  const sources = { wa: { format: "meta", signature: { secrets: ["an app secret of Meta"] } } };
  const other = await startRelayHere({ settings: { sources } });
  const { code, err } = await runOn(other, "trigger", "message.status");
  const instead = 'its source wa takes "wamid-relay trigger meta.status"';
  expect([code, err]).toEqual([
    1,
    `wamid-relay: ${other.settingsPath} has no source with format: standard; ${instead}\n`,
  ]);
});

describe("many events", () => {
  test("--count, --duplicate, --shuffle, --seed: each event is accepted once, and its copies are duplicates", async () => {
    const { posts, answers, events } = await triggered(
      ..."message.status --count 40 --duplicate 2 --shuffle --seed many".split(" "),
    );
    expect([posts, answers]).toEqual([120, { accepted: 40, duplicate: 80 }]);
    const again = await triggered(
      ..."message.status --count 40 --duplicate 2 --shuffle --seed many".split(" "),
    );
    expect(new Set(again.events.map(({ wamid }) => wamid))).toEqual(
      new Set(events.map(({ wamid }) => wamid)),
    );
    expect(new Set(again.events.map(({ id }) => id))).not.toEqual(
      new Set(events.map(({ id }) => id)),
    );
  });
});

describe("scenarios", () => {
  test.each(triggerScenarios.map(({ name }) => name))(
    "%s gets the answers that it should",
    async (name) => {
      const { unexpected, faults, posts } = await triggered("scenario", name, "--seed", "fixed");
      expect([unexpected, faults]).toEqual([0, []]);
      expect(posts).toBeGreaterThanOrEqual(20);
    },
  );

  test("detects a receiver that accepts forged events", async () => {
    const gullible = await startTestServer((response) => void response.writeHead(200).end());
    const { code, out, err } = await trigger("scenario", "bad-signatures", "--url", gullible.url);
    expect(code).toBe(1);
    expect(out).toContain("!! unauthorized expected, got 200");
    expect(err).toMatch(
      /not as expected: .*unauthorized expected, got 200\n[\s\S]*wamid-relay: \d+ answers not as expected\n$/,
    );
  });
});

describe("to a URL", () => {
  test("signs the exact bytes as the source of the settings", async () => {
    const receiver = await startTestServer((response) => void response.writeHead(204).end());
    expect(
      await triggered("message.received", "--count", "3", "--url", `${receiver.url}/hook?x=1`),
    ).toMatchObject({
      posts: 3,
      answers: { 204: 3 },
    });
    expect(receiver.seen.map(({ path, method }) => `${method} ${path}`)).toEqual(
      Array(3).fill("POST /hook?x=1"),
    );
    for (const { headers, body } of receiver.seen)
      expect(headers["x-acme-signature"]).toBe(signature(body).replace("sha256=", ""));
  });

  test("shows an unsuccessful answer, and exits with 1", async () => {
    const receiver = await startTestServer(
      (response) => void response.writeHead(422).end("no \u001b[31mthanks"),
    );
    const { code, out, err } = await trigger("message.status", "--url", receiver.url);
    expect(code).toBe(1);
    expect(out).toContain("!! accepted expected, got 422  no \\u001b[31mthanks\n");
    expect(err).toContain("wamid-relay: 1 answer not as expected\n");
  });

  test("ends at once when no server answers", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const { code, out, err } = await trigger("message.status", "--count", "100000", "--url", url);
    expect([code, err]).toEqual([
      1,
      expect.stringContaining(`wamid-relay: nothing listens at ${url}`),
    ]);
    expect(out.split("\n").length).toBeLessThan(40);
    expect(out).toContain("--- unanswered");
    expect(out).toContain("no answer (ECONNREFUSED)");
  });

  test("posts to another machine only with --allow-remote", async () => {
    const args = ["message.status", "--url", "http://relay.invalid/hook"];
    expect(await trigger(...args)).toEqual({
      code: 1,
      out: "",
      err: "wamid-relay: relay.invalid is not this machine: sample events would go out to it; --allow-remote lets them\n",
    });
    expect((await trigger(...args, "--allow-remote")).out).toContain("--- unanswered");
  });
});

describe("--list", () => {
  test("lists fixtures and scenarios, the user's own first", async () => {
    mkdirSync(join(folder, "own"));
    writeFileSync(
      join(folder, "own", "message.status.json"),
      '{"id":"1","event":"message.status","createdAt":"2026-11-21T12:00:00.000Z","data":{"status":"mine"}}',
    );
    writeFileSync(join(folder, "own", "broken.json"), "{");
    const { code, out, err } = await runHere([
      "trigger",
      "--list",
      "--fixtures",
      join(folder, "own"),
    ]);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(/\nmessage\.status {2,}message\.status {2,}mine {2,}\S+own\n/);
    expect(out).toMatch(/\nbroken {2,}cannot be used: /);
    const rows = out.split("\n").map((line) => line.split(/ {2,}/));
    for (const { name, description } of triggerScenarios)
      expect(rows).toContainEqual([name, description]);
    const { fixtures, scenarios } = jsonOf<{
      fixtures: { name: string; folder: string | null }[];
      scenarios: unknown[];
    }>(await runHere(["trigger", "--list", "--json"]));
    expect(fixtures.find(({ name }) => name === "message.status")?.folder).toBeNull();
    expect(scenarios).toHaveLength(triggerScenarios.length);
  });
});

describe("wrong usage", () => {
  test.each([
    [[], "say which event"],
    [["message.status", "automation.failed"], "too many arguments"],
    [["scenario", "out-of-order", "--keep-ids"], "--keep-ids is for events"],
    [["message.status", "--set", "status"], "It must be path=value"],
    [["message.status", "--duplicate", "1.5"], "It must be a share below 1"],
    [["message.status", "--rate", "fast"], "It must be a rate"],
  ])("%j is exit code 2", async (args, told) => {
    const { code, out, err } = await runHere(["trigger", ...args]);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toContain(told);
  });

  test.each([
    [["no-such-event"], 'unknown event "no-such-event" (there are: automation-request, '],
    [["scenario", "no-such"], 'unknown scenario "no-such" (there are: campaign-burst, '],
    [["message.status", "--source", "none"], 'unknown source "none" (there are: main, wa, flows)'],
  ])("%j is exit code 1", async (args, told) => {
    const { code, out, err } = await runOn(relay, "trigger", ...args);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toContain(told);
  });
});

test("requires a source when several are of the kind", async () => {
  const other = await makeRelayHere({
    settings: {
      sources: Object.fromEntries(
        ["a", "b"].map((name) => [
          name,
          { account: "main", signature: { service: "acme", secrets: ["s".repeat(20)] } },
        ]),
      ),
    },
  });
  onTestFinished(() => other.dispose());
  expect((await runOn(other, "trigger", "message.status")).err).toBe(
    "wamid-relay: say which with --source: a, b\n",
  );
});

test("Ctrl-C ends it with a sum and exit code 1", async () => {
  const args = [
    entry,
    "trigger",
    "message.status",
    "--count",
    "100000",
    "--rate",
    "20/s",
    "--config",
    relay.settingsPath,
  ];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let err = "";
  child.stderr.on("data", (chunk: Buffer) => (err += chunk));
  const code = await new Promise((resolve) => {
    child.stdout.on("data", (chunk: Buffer) => {
      if (out === "") child.kill("SIGINT");
      out += chunk;
    });
    child.on("close", resolve);
  });
  expect(code).toBe(1);
  expect(out).toMatch(/\n\d+ posts? in /);
  expect(err).toBe("wamid-relay: stopped before the end\n");
});
