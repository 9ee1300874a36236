import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { entry } from "../../harness/relay-process.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { jsonOf, runOn, runProcessOn, runRemote } from "./run-cli.ts";

const wamid = (n: number) => `wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0${String(n).padStart(8, "0")}`;

function fileIn(relay: RelayHere, name: string, text: string): string {
  const path = join(relay.folder, name);
  writeFileSync(path, text);
  return path;
}

const stored = (relay: RelayHere) =>
  rowsOf(
    relay.storePath,
    "SELECT name AS wamid, service_id AS id, reference, conversation_id AS conversation, metadata, registered_sent_at AS sentAt FROM subjects ORDER BY seq",
  );

test("registers a spreadsheet's CSV file, and lists rejected lines", async () => {
  const relay = await startRelayHere();
  const path = fileIn(
    relay,
    "messages.csv",
    [
      "\ufeffaccount;wamid;reference;conversationId;id;sentAt;metadata.team;metadata.note",
      `main;${wamid(1)};order-1;c1;m1;2026-11-01T10:00:00-03:00;support;"two`,
      'lines; and ""quotes"""',
      `main;${wamid(1)};order-2;;;;;`,
      `main;${wamid(2)};;;;;;`,
      `main;${wamid(3)};too few`,
      `nobody;${wamid(4)};;;;;;`,
      `main;${wamid(5)};;;;yesterday;;`,
      "",
    ].join("\r\n"),
  );
  const { code, out, err } = await runProcessOn(relay, "track", "--file", path);
  expect(code).toBe(1);
  expect(out).toBe("6 lines: 2 registered, 0 registered already, 1 in conflict, 3 invalid\n");
  // A slow machine shows progress.
  expect(err.split("\n").filter((line) => !/^\d+% /.test(line))).toEqual([
    expect.stringMatching(
      /^line 4: wamid:[0-9a-f]{12}: this wamid is registered with another reference \("order-1", not "order-2"\)$/,
    ),
    "line 6: has 3 fields, not 8 as the first line",
    expect.stringMatching(
      /^line 7: wamid:[0-9a-f]{12}: unknown account "nobody" \(there are: main\)$/,
    ),
    expect.stringMatching(/^line 8: wamid:[0-9a-f]{12}: sentAt: /),
    "wamid-relay: 4 of 6 lines refused",
    "",
  ]);
  const nothing = { id: null, reference: null, conversation: null, metadata: null, sentAt: null };
  expect(stored(relay)).toEqual([
    {
      wamid: wamid(1),
      id: "m1",
      reference: "order-1",
      conversation: "c1",
      metadata: '{"team":"support","note":"two\\r\\nlines; and \\"quotes\\""}',
      sentAt: Date.parse("2026-11-01T13:00:00Z"),
    },
    { ...nothing, wamid: wamid(2) },
  ]);
});

test("registers a long NDJSON file or standard input through a local relay, a remote one, and the store", async () => {
  const relay = await startRelayHere();
  const lines = Array.from(
    { length: 2_500 },
    (_, n) => `${JSON.stringify({ account: "main", wamid: wamid(n), reference: `order-${n}` })}\n`,
  );
  lines.splice(1_700, 0, "\n", '{"account":"main"}\n');
  const path = fileIn(relay, "messages.ndjson", lines.join(""));
  const first = await runRemote(relay, "track", "--file", path, "--json");
  expect(first.code).toBe(1);
  expect(JSON.parse(first.out)).toEqual({
    lines: 2_501,
    created: 2_500,
    known: 0,
    conflict: 0,
    invalid: 1,
  });
  // On a slow machine there are lines of progress, too.
  expect(first.err).toMatch(/^line 1702: wamid: .*$/m);
  expect((await runOn(relay, "track", "--file", path)).out).toBe(
    "2,501 lines: 0 registered, 2,500 registered already, 0 in conflict, 1 invalid\n",
  );
  expect(first.err).toMatch(/^wamid-relay: 1 of 2,501 lines refused$/m);

  await relay.stop();
  const child = spawn(
    process.execPath,
    [entry, "track", "--file", "-", "--json", "--config", relay.settingsPath],
    { stdio: "pipe" },
  );
  child.stdin.end(lines.filter((line) => line.includes("reference")).join(""));
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  const [code] = await once(child, "close");
  expect([code, JSON.parse(out)]).toEqual([
    0,
    { lines: 2_500, created: 0, known: 2_500, conflict: 0, invalid: 0 },
  ]);
  expect(stored(relay).length).toBe(2_500);
});

test("takes a file without accounts when there is only one; with two, the error names both", async () => {
  const accounts = { main: {}, shop: {} };
  const relay = await startRelayHere();
  const path = fileIn(relay, "messages.csv", `wamid,reference\n${wamid(1)},order-1\n`);
  expect(await runOn(relay, "track", "--file", path)).toMatchObject({
    code: 0,
    out: expect.stringContaining("1 registered, 0"),
  });
  expect(await runOn(relay, "track", "--wamid", wamid(2))).toEqual({
    code: 0,
    out: "registered\n",
    err: "",
  });
  expect(stored(relay).map((row) => row.wamid)).toEqual([wamid(1), wamid(2)]);

  const second = await startRelayHere({ settings: { accounts } });
  const refused = await runOn(second, "track", "--file", path);
  expect(refused.err).toMatch(/^line 2: wamid:[0-9a-f]{12}: name an account, one of main, shop$/m);
  expect(await runOn(second, "track", "--wamid", wamid(2))).toEqual({
    code: 1,
    out: "",
    err: "wamid-relay: name an account, one of main, shop\n",
  });
  expect(stored(second)).toEqual([]);
  expect((await runOn(second, "track", "--account", "shop", "--wamid", wamid(2))).code).toBe(0);
});

test("registers nothing from an unreadable file", async () => {
  const relay = await startRelayHere();
  const failing = async (text: string | Buffer, name = "wrong.csv") => {
    const path = join(relay.folder, name);
    writeFileSync(path, text);
    const { code, out, err } = await runOn(relay, "track", "--file", path);
    expect([code, out]).toEqual([1, ""]);
    return err;
  };
  expect(await failing("")).toContain("its first line names the columns");
  expect(await failing("account,wamid,telefono\nmain,w,1\n")).toContain(
    'has unknown columns: "telefono"',
  );
  for (const text of [`[{"wamid":"w","reference":"r"}]`, '\n[\n  { "wamid": "w" }\n]\n'])
    expect(await failing(text, "wrong.json")).toContain(
      "holds a JSON list, and not one object a line",
    );
  expect(await failing("account,reference\nmain,w\n")).toContain("lacks the column wamid");
  expect(await failing("account,wamid,wamid\nmain,w,w\n")).toContain("has the column wamid twice");
  expect(await failing(Buffer.from("account,wamid\nmain,n\xf3\n", "latin1"))).toContain(
    "not in UTF-8",
  );
  expect((await runOn(relay, "track", "--file", join(relay.folder, "none.csv"))).err).toContain(
    "no such file",
  );
  expect((await runOn(relay, "track", "--file", relay.folder)).err).toContain("directory");
  expect((await runOn(relay, "track", "--file", "x.csv", "--wamid", "w")).code).toBe(2);
  expect((await runOn(relay, "track", "--account", "main")).err).toContain(
    "required option '--wamid <wamid>' not specified",
  );
  expect(stored(relay)).toEqual([]);
});

test("registers one message by flags, with every field", async () => {
  const relay = await startRelayHere();
  const flags = [
    "--account",
    "main",
    "--wamid",
    wamid(1),
    "--conversation-id",
    "c1",
    "--sent-at",
    "2026-11-01",
    "--metadata",
    "a=b=c",
  ];
  expect(jsonOf(await runOn(relay, "track", ...flags, "--json"))).toEqual({ created: 1, known: 0 });
  expect((await runOn(relay, "track", ...flags)).out).toBe(
    "was registered already; what was new has been added\n",
  );
  expect(stored(relay)).toMatchObject([
    { conversation: "c1", metadata: '{"a":"b=c"}', sentAt: Date.parse("2026-11-01T00:00:00Z") },
  ]);
});
