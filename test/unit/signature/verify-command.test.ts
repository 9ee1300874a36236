import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import type { Io } from "../../../src/cli/io.ts";
import { main } from "../../../src/cli/main.ts";
import { Secret } from "../../../src/model/secret.ts";
import { type SignatureSettings, signatureSettingsSchema } from "../../../src/model/signature.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { publicUrl, receive, secretOf, sent, signatureHeaders, verify } from "./schemes.ts";

const folder = tempFolder();
const bodyFile = file("body.json", sent.body);
const secretFile = file("s", "s");

function file(name: string, content: Buffer | string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function run(
  argv: readonly string[],
  { env = {}, stdin = Buffer.alloc(0) }: { env?: Record<string, string>; stdin?: Buffer } = {},
) {
  const out: string[] = [];
  const err: string[] = [];
  const io: Io = {
    out: (line) => out.push(line),
    err: (line) => err.push(line),
    isTerminal: false,
    env,
    readStdin: async () => stdin,
  };
  const code = await main(["verify", ...argv], io);
  return { code, out: out.join("\n"), err: err.join("\n") };
}

const headerOptions = (settings: SignatureSettings) =>
  Object.entries(signatureHeaders(settings, secretOf(settings), sent)).flatMap(([name, value]) => [
    "-H",
    `${name}: ${value}`,
  ]);

/** The settings of the printed block. */
function pasted(out: string): SignatureSettings {
  const block = /^ {2}signature:\n(?: {4}.*\n?)+/m.exec(out)?.[0] ?? "";
  const { secrets, ...settings } = (parse(block) as { signature: Record<string, unknown> })
    .signature;
  expect(secrets).toEqual([expect.stringMatching(/^\$\{[A-Z_]+\}$/)]);
  return signatureSettingsSchema.parse(settings);
}

const schemes: SignatureSettings[] = [
  { service: "acme" },
  { service: "123" },
  { preset: "stripe" },
  { preset: "standard-webhooks" },
  { preset: "hubspot", publicUrl },
  {
    service: "acme",
    prefix: "v1, ",
    algorithm: "sha512",
    encoding: "base64url",
    secretEncoding: "hex",
  },
  {
    header: "x-sum",
    content: "{timestamp}\n{body}",
    timestampHeader: "x-time",
    timestampUnit: "ms",
  },
];

test.each(schemes)(
  "prints settings that verify the request, without the secret: %o",
  async (settings) => {
    const secret = secretOf(settings);
    const url = settings.publicUrl === undefined ? [] : ["--url", `${publicUrl}${sent.url}`];
    const { code, out, err } = await run(
      ["--secret-env", "MY_SECRET", "--body", bodyFile, ...url, ...headerOptions(settings)],
      {
        env: { MY_SECRET: secret },
      },
    );
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain(`secrets: ["\${MY_SECRET}"]`);
    expect(out).toContain(new Secret(secret).fingerprint());
    expect(out).not.toContain(secret);
    expect(verify(pasted(out), secret, receive(settings, secret)).ok).toBe(true);
  },
);

test("reads a captured request with CRLF or LF, from a file or standard input", async () => {
  const settings: SignatureSettings = { preset: "slack" };
  const { headers } = receive(settings, secretOf(settings));
  for (const newline of ["\r\n", "\n"]) {
    const head = [
      "POST /webhooks/main HTTP/1.1",
      ...Object.entries(headers).map(([name, value]) => `${name.toUpperCase()}: ${value}`),
      "",
      "",
    ];
    const stdin = Buffer.concat([Buffer.from(head.join(newline)), sent.body]);
    const env = { WEBHOOK_SECRET: secretOf(settings) };
    for (const source of ["-", file("captured.http", stdin)]) {
      const { code, out } = await run(["--secret-env", "WEBHOOK_SECRET", "--request", source], {
        env,
        stdin,
      });
      expect(code).toBe(0);
      expect(pasted(out)).toEqual({ preset: "slack" });
    }
  }
});

test("names the secret that matches, wherever it came from", async () => {
  const right = secretOf({});
  const given = ["--body", bodyFile, ...headerOptions({ service: "acme" })];
  const fromFile = await run(
    [...given, "--secret-env", "OTHER", "--secret-file", file("secret", `${right}\n`)],
    { env: { OTHER: "x" } },
  );
  expect(fromFile).toMatchObject({ code: 0, err: "" });
  expect(fromFile.out).toContain(`Verified with the secret in ${join(folder, "secret")}`);
});

test("exits with 1 without a match, with hints on standard error and nothing on standard output", async () => {
  const { code, out, err } = await run(
    ["--secret-env", "S", "--body", bodyFile, ...headerOptions({ service: "acme" })],
    {
      env: { S: `${secretOf({})} ` },
    },
  );
  expect({ code, out }).toEqual({ code: 1, out: "" });
  expect(err).toMatch(/hint: it matches once the secret loses the white space/);
  expect(err).not.toContain(secretOf({}));
});

test("prints the same as JSON with --json", async () => {
  const given = [
    "--secret-env",
    "S",
    "--body",
    bodyFile,
    "--json",
    ...headerOptions({ preset: "stripe" }),
  ];
  const matched = await run(given, { env: { S: secretOf({}) } });
  expect(matched.code).toBe(0);
  expect(JSON.parse(matched.out)).toMatchObject({
    ok: true,
    secrets: [
      {
        secret: "S",
        matches: [
          { axes: { encoding: "hex" }, signature: { preset: "stripe", secrets: [`\${S}`] } },
        ],
      },
    ],
  });
  const not = await run(given, { env: { S: "x" } });
  expect(not.code).toBe(1);
  expect(JSON.parse(not.out)).toMatchObject({
    ok: false,
    secrets: [{ matches: [], hints: [expect.stringContaining("32 bytes in hex")] }],
  });
});

test.each([
  ["no secret", ["--body", bodyFile]],
  ["an unset variable", ["--secret-env", "NOT_SET", "--body", bodyFile]],
  ["neither request nor body", ["--secret-file", secretFile]],
  [
    "both request and body",
    ["--secret-file", secretFile, "--body", bodyFile, "--request", bodyFile],
  ],
  [
    "a header without a colon",
    ["--secret-file", secretFile, "--body", bodyFile, "-H", "x-signature"],
  ],
  ["an unknown option", ["--secret-file", secretFile, "--body", bodyFile, "--algorithm", "md5"]],
])("exits with 2 for wrong usage: %s", async (_what, argv) => {
  expect(await run(argv)).toMatchObject({
    code: 2,
    out: "",
    err: expect.stringContaining("error: "),
  });
});

test.each([
  [
    "a file that is not there",
    ["--secret-file", secretFile, "--body", join(folder, "none")],
    /cannot read .*none: no such file or directory/,
  ],
  [
    "a file that is no request",
    ["--secret-file", secretFile, "--request", bodyFile],
    /no request line/,
  ],
  ["an empty secret file", ["--secret-file", file("empty", "\n"), "--body", bodyFile], /is empty/],
])("fails with one line: %s", async (_what, argv, message) => {
  expect(await run(argv)).toMatchObject({ code: 1, out: "", err: expect.stringMatching(message) });
});

test("reports a static token as unsupported, as text and as JSON", async () => {
  const given = ["--secret-env", "S", "--body", bodyFile, "-H", "x-gitlab-token: a-token-of-mine"];
  const { code, out, err } = await run(given, { env: { S: "a-token-of-mine" } });
  expect({ code, out }).toEqual({ code: 1, out: "" });
  expect(err).toMatch(
    /hint: x-gitlab-token holds the secret itself: a static token, not a signature/,
  );
  expect(err).toMatch(/authenticated in a way that the relay does not support/);
  expect(err).not.toMatch(/with this secret|a-token-of-mine/);
  const asJson = await run([...given, "--json"], { env: { S: "a-token-of-mine" } });
  expect(JSON.parse(asJson.out)).toMatchObject({
    ok: false,
    secrets: [{ supported: false, matches: [] }],
  });
});

test("reports that a body with a valid signature would be quarantined", async () => {
  const body = '{"object":"event","type":"charge.succeeded"}';
  const header = `x-acme-signature: ${createHmac("sha256", "a-secret").update(body).digest("hex")}`;
  const argv = [
    "--secret-file",
    file("a-secret", "a-secret"),
    "--body",
    file("stripe.json", body),
    "-H",
    header,
  ];
  const { code, out } = await run(argv);
  const quarantine =
    /a source of kind events would quarantine this body: the body is an envelope of Stripe; the relay reads/;
  expect([code, out]).toEqual([0, expect.stringMatching(quarantine)]);
  const found = JSON.parse((await run([...argv, "--json"])).out) as {
    secrets: { hints: string[] }[];
  };
  expect(found.secrets[0]?.hints).toEqual([expect.stringMatching(quarantine)]);
});
