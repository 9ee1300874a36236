import { createHmac, randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { statsOf } from "../../harness/ask-relay.ts";
import { openEcho } from "../../harness/echo.ts";
import { everyCommand } from "../../harness/every-command.ts";
import { foundIn, traces } from "../../harness/personal.ts";
import { postEvent } from "../../harness/post-event.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { runHere } from "../../harness/run-here.ts";
import { until } from "../../harness/until.ts";

const number = "+5491155551234";
const wamid = `wamid.${Buffer.from(`\x1c\x18\x0d${number.slice(1)}\x15\x02\x00\x12`).toString("base64")}`;
const name = "Ximena Quiroga";
/** What a sender, a destination, the service or an application may write into any text. */
const planted = `${name} at ${number}, ${encodeURIComponent(name)}: ${wamid}`;
const wanted = [...traces(number), ...traces(wamid), "Ximena", "Quiroga"];
const referenceKey = "order-1";

/** Why a command is not run here. */
const others: Readonly<Record<string, string>> = {
  init: "writes settings",
  "config schema": "prints the schema of the settings",
  serve: "prints log lines: test/integration/privacy/people.test.ts",
  migrate: "counts rows",
  restore: "counts rows",
  sandbox: "prints what it makes itself",
  demo: "prints what it makes itself",
  listen: "test/unit/listen/screen.test.ts",
};

/** Arguments of each command without `--config`; several lists: several runs. */
function runsIn(
  folder: string,
  delivery: string,
): Readonly<Record<string, readonly (readonly string[])[]>> {
  const file = (path: string) => join(folder, path);
  const seqs = ["1", "2", "3", "4"];
  return {
    console: [["--no-open"]],
    reload: [[], ["--status"]],
    "config check": [[]],
    "config print": [[]],
    track: [
      ["--wamid", wamid, "--metadata", "customer=Another"],
      ["--wamid", wamid, "--reference", "order-2"],
      ["--file", file("refused.ndjson")],
    ],
    send: [
      ["--to", number, "--text", "Hola", "--metadata", `customer=${name}`, "--key", randomUUID()],
    ],
    backup: [["--force", file("copy.db")]],
    doctor: [["--offline"]],
    healthcheck: [[]],
    "events list": [[], ["--disposition", "quarantined"]],
    "events show": seqs.map((seq) => [seq]),
    "events save": [["1", "--force", "--out", file("fixture.json")]],
    "deliveries list": [[]],
    "deliveries groups": [[]],
    explain: [[referenceKey], ...seqs.map((seq) => [seq, "--as", "event"])],
    audit: [[]],
    retry: [[delivery], ["dlv_nothing"]],
    replay: [["--dry-run"], ["--dry-run", "--disposition", "quarantined"]],
    resume: [["everything"]],
    reconcile: [["--dry-run"], []],
    trigger: [["message.status.delivered", "--source", "main"]],
    verify: [
      [
        "--secret-file",
        file("secret"),
        "--body",
        file("body.json"),
        "-H",
        `x-signature: ${planted}`,
      ],
    ],
  };
}

const found = (text: string) => foundIn(text, wanted);

async function plant(): Promise<RelayHere> {
  const refusing = await openEcho(400, () =>
    JSON.stringify({ error: planted, code: "bad_request", message: planted }),
  );
  const [failing, gone] = [await openEcho(500, () => planted), await openEcho(410, () => planted)];
  const once = { retry: { schedule: ["0s"], jitter: 0 } };
  const signed = {
    signature: {
      preset: "standard-webhooks",
      secrets: [`whsec_${Buffer.from("of-the-test-of-the-test").toString("base64")}`],
    },
  };
  const relay = await startRelayHere({
    settings: {
      accounts: {
        main: {
          baseUrl: refusing.url,
          apiKey: "sk_live_of-the-test",
          plan: "enterprise",
          share: 1,
        },
      },
      sources: {
        main: {
          account: "main",
          signature: { service: "acme", secrets: ["harness-webhook-secret"] },
        },
        signed: { account: "main", ...signed },
      },
      routes: [
        routeTo(failing.url, { to: once }),
        routeTo(gone.url, { name: "stopped", to: once }),
        routeTo(failing.url, {
          name: "none",
          match: { events: ["*"], errorCodes: ["1"] },
          to: once,
        }),
      ],
    },
  });
  const sentAt = new Date(Date.now() - 86_400_000).toISOString();
  const metadata = { customer: name, phone: number, note: planted };
  const registration = {
    wamid,
    id: randomUUID(),
    conversationId: number,
    reference: referenceKey,
    metadata,
    sentAt,
  };
  expect(
    await relay.ask("/v1/messages/track", { method: "POST", body: registration }),
  ).toMatchObject({ status: 200 });

  const eventOf = (data: object, id: string = randomUUID()) =>
    Buffer.from(
      JSON.stringify({ id, event: "message.status", createdAt: new Date().toISOString(), data }),
    );
  const contact = { to: number, profile: { name }, text: { body: planted } };
  const bodies = [
    eventOf({ wamid, status: "failed", errorCode: planted, ...contact }),
    eventOf({ wamid, status: planted, ...contact }, `${wamid}:${number}`),
    Buffer.from(JSON.stringify({ id: wamid, event: 1, [number]: name, data: contact })),
  ];
  for (const body of bodies)
    expect((await postEvent(relay.webhookUrl, body)).status).toBeLessThan(300);
  const body = eventOf({ wamid, status: "read", ...contact }).toString();
  const id = encodeURIComponent(`${name} ${wamid} ${number}`);
  const seconds = Math.floor(Date.now() / 1000);
  const signature = createHmac("sha256", "of-the-test-of-the-test")
    .update(`${id}.${seconds}.${body}`)
    .digest("base64");
  const headers = {
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": `v1,${signature}`,
  };
  expect(
    (await fetch(`${relay.url}/webhooks/signed`, { method: "POST", headers, body })).status,
  ).toBe(200);
  const line = (more: object) => JSON.stringify({ account: "main", wamid, ...more });
  const refused = [
    line({ metadata: { customer: "Another" } }),
    line({ reference: "order-2" }),
    line({ sentAt: planted }),
    planted,
  ];
  writeFileSync(join(relay.folder, "refused.ndjson"), refused.join("\n"));
  writeFileSync(join(relay.folder, "secret"), "of-the-test");
  writeFileSync(join(relay.folder, "body.json"), JSON.stringify({ planted }));
  await until(
    "an attempt of each event failed",
    async () => (await statsOf(relay)).attempts.failed >= 3,
  );
  return relay;
}

test("every command is run below, or has a reason not to be", () => {
  expect(Object.keys({ ...runsIn("", ""), ...others }).toSorted()).toEqual(
    everyCommand.map(({ name: each }) => each).toSorted(),
  );
});

test("no command prints a wamid, a phone number or a name without --show-pii", async () => {
  const relay = await plant();
  const clear = await runHere([
    "events",
    "show",
    "4",
    "--json",
    "--show-pii",
    "--config",
    relay.settingsPath,
  ]);
  // Each was planted where commands look.
  expect(found(clear.out)).toEqual(expect.arrayContaining([number, wamid, "Ximena", "Quiroga"]));
  const { out } = await runHere(["deliveries", "list", "--json", "--config", relay.settingsPath]);
  const [{ id = "" } = {}] = (JSON.parse(out) as { data: { id: string }[] }).data;
  for (const isRunning of [true, false]) {
    if (!isRunning) await relay.stop();
    for (const [command, runs] of Object.entries(runsIn(relay.folder, id))) {
      for (const args of runs) {
        // What prints is the same without a relay: JSON is tried once.
        for (const more of command === "healthcheck" || !isRunning ? [[]] : [[], ["--json"]]) {
          const config = command === "verify" ? [] : ["--config", relay.settingsPath];
          const ran = await runHere([...command.split(" "), ...args, ...config, ...more]);
          expect({
            command,
            args,
            found: found(`${ran.out}\n${ran.err}`),
            out: ran.out,
            err: ran.err,
          }).toMatchObject({ found: [] });
          expect([args, ran.code === 2 ? ran.err : ""]).toEqual([args, ""]);
        }
      }
    }
  }
});
