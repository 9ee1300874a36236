import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { postEvent } from "../../harness/post-event.ts";
import { makeRelayHere, type RelayHere } from "../../harness/relay-here.ts";
import { entry } from "../../harness/relay-process.ts";
import { relayToken, webhookSecret } from "../../harness/relay-settings.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { jsonOf, runCli, runOn } from "./run-cli.ts";

const run = promisify(execFile);
const phone = "5491155550001";
const wamid = "wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0QzQ5RkE2RTIxQjg3AA==";
const id = "01998d3e-7c1a-7000-8000-0000000000ab";
/** As no serialiser of ours writes it. */
const body = Buffer.from(
  `{ "id":"${id}","event" : "message.status","createdAt":"2026-11-21T12:00:00.000Z",\n"data":{"n":12345678901234567890,"status":"failed",` +
    `"errorCode":131026,"wamid":"${wamid}","to":"+${phone}","contact_name":"Jos\\u00e9 Sosa","note":"Jos\\u00e9 \\/ ${phone} \\u2026","conversationId":"${id}"}}`,
);
const folder = tempFolder();
const file = join(folder, "deep", "saved.json");
let relay: RelayHere;

beforeAll(async () => {
  const signature = { service: "acme", secrets: [webhookSecret] };
  const sources = {
    main: { account: "main", signature },
    flows: { account: "main", kind: "automation-request", mode: "ack", signature },
  };
  relay = await makeRelayHere({ settings: { sources } });
  await relay.start();
  await postEvent(relay.webhookUrl, body);
  await postEvent(relay.webhookUrl, Buffer.from("{ not JSON"));
});
afterAll(() => relay.dispose());

const save = (...args: string[]) => runOn(relay, "events", "save", ...args);

describe("events save", () => {
  test("writes a fixture without personal data and otherwise unchanged, and reports the replacements", async () => {
    const { code, out, err } = await save(id, "--out", file, "--salt", "team");
    expect([code, err]).toEqual([
      0,
      "note: look it over before you share it; free text may hold personal data that was not found\n",
    ]);
    expect(out).toBe(`saved ${file}; replaced: 1 phone, 1 wamid, 2 names, 1 id, 0 emails\n`);
    const text = readFileSync(file, "utf8");
    for (const secret of [phone, wamid, wamid.slice(6, 30), "Jos", "Sosa", id])
      expect(text).not.toContain(secret);
    for (const kept of [
      '{ "id":"',
      '","event" : "message.status","createdAt":"2026-11-21T12:00:00.000Z",\n"data":{"n":12345678901234567890,"status":"failed","errorCode":131026,',
      " \\/ ",
      ' \\u2026"',
    ]) {
      expect(text).toContain(kept);
    }
    const { data } = JSON.parse(text) as { data: { wamid: string; to: string } };
    expect(Buffer.from(data.wamid.slice(6), "base64").toString("latin1")).toContain(
      data.to.slice(1),
    );
  });

  test("overwrites only with --force, and the same salt gives the same file on another machine", async () => {
    const text = readFileSync(file, "utf8");
    expect(await save(id, "--out", file)).toEqual({
      code: 1,
      out: "",
      err: `wamid-relay: ${file} exists; --force replaces it, --out names another\n`,
    });
    const { replaced } = jsonOf<{ file: string; replaced: Record<string, number> }>(
      await save("1", "--out", file, "--salt", "team", "--force", "--json"),
    );
    expect(replaced).toEqual({ phones: 1, wamids: 1, names: 2, ids: 1, emails: 0 });
    expect(readFileSync(file, "utf8")).toBe(text);
    const afar = ["--relay", relay.url, "--account", "main"];
    const remote = await runCli(["events", "save", id, ...afar, "--out", "-", "--salt", "team"], {
      RELAY_TOKEN: relayToken,
    });
    expect(remote).toEqual({ code: 0, out: text, err: "" });
  });

  test("without --out it writes into fixtures/ by kind and status, where trigger looks first", async () => {
    const config = ["--config", relay.settingsPath];
    const inFolder = (...args: string[]) =>
      run(process.execPath, [entry, ...args, ...config], { cwd: folder });
    expect((await inFolder("events", "save", id)).stdout).toMatch(
      /^saved fixtures\/message\.status\.failed\.json; /,
    );
    const { stdout } = await inFolder("trigger", "message.status.failed", "--json");
    expect(stdout).toContain('"accepted": 1');
    expect((await inFolder("trigger", "--list")).stdout).toMatch(
      /\nmessage\.status\.failed .* fixtures\n/,
    );
  });

  test("saves a compressed automation request as decoded JSON", async () => {
    const bytes = gzipSync(`{"step":"ask","phone":"+${phone}"}`);
    const flows = `${relay.url}/webhooks/flows`;
    const headers = {
      "x-acme-signature": createHmac("sha256", webhookSecret).update(bytes).digest("hex"),
      "content-encoding": "gzip",
    };
    expect(
      (await fetch(flows, { method: "POST", headers, body: new Uint8Array(bytes) })).status,
    ).toBe(200);
    const [{ seq }] = (
      (await relay.ask("/v1/events?source=flows")).body as { data: [{ seq: number }] }
    ).data;
    const out = join(folder, "compressed.json");
    expect((await save(String(seq), "--out", out)).code).toBe(0);
    const text = readFileSync(out, "utf8");
    expect((JSON.parse(text) as { step: string }).step).toBe("ask");
    expect(text).not.toContain(phone);
  });

  test("saves neither a body that is not JSON nor an unknown event", async () => {
    const out = join(folder, "quarantined.json");
    const { code, err } = await save("2", "--out", out);
    expect([code, err]).toEqual([1, expect.stringContaining("the body is not JSON")]);
    expect((await save("no-such-event", "--out", out)).err).toMatch(
      /^wamid-relay: no such event; "wamid-relay events list --query" /,
    );
    expect(existsSync(out)).toBe(false);
  });

  test("wrong usage", async () => {
    expect(await save(id, "--salt", "")).toMatchObject({ code: 2, out: "" });
    expect(await save(id, "--out", "-", "--json")).toMatchObject({ code: 2, out: "" });
  });
});
