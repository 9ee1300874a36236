import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runHere } from "../../harness/run-here.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const folder = tempFolder();

const secret = "an app secret of Meta";
const token = "a verify token";
const wamid = "wamid.HBgLMTY1MDU1NTEyMzQVAgARGBI=";
const settings = file(
  "relay.yaml",
  JSON.stringify({
    accounts: { one: {} },
    sources: {
      wa: {
        format: "meta",
        verifyTokens: ["${VERIFY}"],
        signature: { secrets: ["${APP_SECRET}"] },
        accounts: { "106540352242922": "one" },
      },
      path: { format: "meta", account: "one", pathSecrets: ["a-secret-in-a-path"] },
      plain: {
        account: "one",
        signature: { preset: "stripe", secrets: ["a secret of the service"] },
      },
    },
  }),
);
const env = { VERIFY: token, APP_SECRET: secret };

function file(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const change = (number: string, value: object) => ({
  field: "messages",
  value: { metadata: { phone_number_id: number }, ...value },
});
const status = { id: wamid, status: "sent", timestamp: "1750263773", recipient_id: "16505551234" };
const body = JSON.stringify({
  object: "whatsapp_business_account",
  entry: [
    {
      id: "102290129340398",
      changes: [
        change("106540352242922", { statuses: [status, 7] }),
        change("206540352242922", { statuses: [status] }),
      ],
    },
  ],
});
const signed = (text: string, key = secret) =>
  `X-Hub-Signature-256: sha256=${createHmac("sha256", key).update(text).digest("hex")}`;
const request = (line: string, headers: string[] = [], text = "") =>
  file(
    "captured.http",
    `${line} HTTP/1.1\r\n${headers.map((header) => `${header}\r\n`).join("")}\r\n${text}`,
  );

const verify = (captured: string, ...args: string[]) =>
  runHere(["verify", "--config", settings, "--request", captured, ...args], env);
const asSource = (captured: string, source = "wa", ...args: string[]) =>
  verify(captured, "--source", source, ...args);

interface Printed {
  readonly ok: boolean;
  readonly items: {
    result: string;
    reason: string | null;
    event: string | null;
    account: string | null;
    wamid: string | null;
  }[];
}
const jsonOf = ({ out }: { out: string }) => JSON.parse(out) as Printed;

describe("a request as a source of Meta's verifies it", () => {
  test("lists its items: event, number, account and masked wamid, or why one is none", async () => {
    const captured = request("POST /webhooks/wa", [signed(body)], body);
    const { code, out, err } = await asSource(captured);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(
      /^The source wa verifies it with the secret [0-9a-f]{12} \(fingerprint\)\.$/m,
    );
    expect(out).toMatch(
      /^0 +message\.status +sent +106540352242922 +one +wamid:[0-9a-f]{12} +event$/m,
    );
    expect(out).toMatch(/^1 .* quarantined: statuses\[1\] is not an object$/m);
    expect(out).toMatch(
      /^2 .* unassigned: no account has the number 206540352242922 or 102290129340398$/m,
    );
    expect(out).not.toContain(wamid);
    const printed = jsonOf(await asSource(captured, "wa", "--json"));
    expect(printed).toMatchObject({ ok: true, source: "wa", refusal: null });
    expect(printed.items.map(({ result }) => result)).toEqual([
      "event",
      "quarantined",
      "unassigned",
    ]);
  });

  test("is refused with another secret, without one, and when its bytes are others", async () => {
    const wrong = await asSource(request("POST /webhooks/wa", [signed(body, "another")], body));
    expect([wrong.code, wrong.out]).toEqual([1, ""]);
    expect(wrong.err).toContain(
      "the source wa refuses this request with 401: none of the source's secrets verifies it",
    );
    const changed = await asSource(request("POST /webhooks/wa", [signed(body)], `${body}\n`));
    expect(changed.err).toMatch(
      /hint: .*so the secret, the body or what else is signed .* is not as sent/,
    );
    const unsigned = await asSource(request("POST /webhooks/wa", [], body), "wa", "--json");
    expect(unsigned.code).toBe(1);
    expect(jsonOf(unsigned)).toMatchObject({ ok: false, refusal: "missing-signature", items: [] });
  });

  test("checks the secret in the path of a request line or a whole URL", async () => {
    const path = "/webhooks/path/a-secret-in-a-path";
    expect((await asSource(request(`POST ${path}`, [], body), "path")).code).toBe(0);
    expect(
      (await asSource(request(`POST https://relay.example${path}`, [], body), "path")).code,
    ).toBe(0);
    expect((await asSource(request("POST /webhooks/path/wrong", [], body), "path")).code).toBe(1);
  });

  test("that is stale by now is verified, with a note", async () => {
    const text = '{"id":"1","event":"message.status","createdAt":"2026-01-01T00:00:00Z","data":{}}';
    const hmac = createHmac("sha256", "a secret of the service")
      .update(`1700000000.${text}`)
      .digest("hex");
    const { code, out } = await asSource(
      request("POST /webhooks/plain", [`Stripe-Signature: t=1700000000,v1=${hmac}`], text),
      "plain",
    );
    expect(code).toBe(0);
    expect(out).toContain(
      "note: its signature is right, but its time is outside the tolerance now",
    );
    expect(out).toMatch(/^0 +message\.status .* event$/m);
  });
});

describe("Meta's handshake", () => {
  const handshake = (query: Record<string, string>) =>
    request(
      `GET /webhooks/wa?${new URLSearchParams({ "hub.mode": "subscribe", "hub.challenge": "11", "hub.verify_token": token, ...query })}`,
    );

  test("is answered for a verify token of the source, or a given one", async () => {
    expect(await asSource(handshake({}))).toMatchObject({
      code: 0,
      out: "Meta's handshake: the relay answers it with its challenge.\n",
    });
    expect((await verify(handshake({}), "--secret-env", "VERIFY")).code).toBe(0);
  });

  test.each([
    [{ "hub.verify_token": "wrong" }, "hub.verify_token is none of these tokens"],
    [{ "hub.verify_token": "" }, "hub.verify_token is missing"],
    [{ "hub.mode": "unsubscribe" }, "hub.mode is not subscribe"],
    [{ "hub.challenge": "" }, "hub.challenge is missing or too long"],
  ])("is refused for %o", async (query, fault) => {
    const { code, out, err } = await asSource(handshake(query));
    expect([code, out]).toEqual([1, ""]);
    expect(err).toContain(`403, because ${fault}`);
    expect(jsonOf(await asSource(handshake(query), "wa", "--json"))).toEqual({
      ok: false,
      handshake: { fault },
    });
  });
});

test("without a source, finds the signature and lists the items", async () => {
  const { code, out } = await verify(
    request("POST /webhooks/wa", [signed(body)], body),
    "--secret-env",
    "APP_SECRET",
  );
  expect(code).toBe(0);
  expect(out).toContain("  format: meta\n  signature:\n    preset: meta\n");
  expect(out).toMatch(/^2 +message\.status .* event$/m);
});

test("a source has its secrets, and must be one of the settings", async () => {
  const captured = request("POST /webhooks/wa", [signed(body)], body);
  expect((await asSource(captured, "wa", "--secret-env", "APP_SECRET")).code).toBe(2);
  expect((await asSource(captured, "wb")).err).toContain('unknown source "wb"');
  const { err } = await runHere(
    ["verify", "--config", settings, "--request", captured, "--source", "wa"],
    {},
  );
  expect(err).toContain("this command cannot read the source's secret");
});
