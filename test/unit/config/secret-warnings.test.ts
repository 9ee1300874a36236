import { expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { type Warning, warnings } from "../../../src/config/warnings.ts";
import { faultsOf } from "./faults-of.ts";

const hex = "4c6f6e6720616e642072616e646f6d21";
const other = "9b1c7e5502fa4d6688ac01d2e3f4a5b6";
const whsec = (byte: number, length = 32) =>
  `whsec_${Buffer.from(Array.from({ length }, (_, at) => byte + at)).toString("base64")}`;

interface Secrets {
  readonly incoming?: readonly string[];
  readonly second?: { readonly account: string; readonly secret: string };
  readonly to?: readonly object[];
  readonly token?: string;
  readonly signature?: object;
}

function warned(secrets: Secrets): string[] {
  return messages(secrets).map(({ path, message }) => `${path} ${message.split(/[,;:] /)[0]}`);
}

function messages({
  incoming = [hex],
  second,
  to = [{ secret: whsec(1) }],
  token = other,
  signature = {},
}: Secrets): Warning[] {
  const text = JSON.stringify({
    accounts: { main: {}, ...(second?.account === "main" ? {} : { more: {} }) },
    sources: {
      s: { account: "main", signature: { service: "acme", secrets: incoming, ...signature } },
      t: {
        account: second?.account ?? "more",
        signature: {
          service: "acme",
          secrets: [second?.secret ?? "7d9e-unlike-all-of-the-others"],
        },
      },
    },
    control: { tokens: [{ name: "ops", token, scopes: ["read"] }] },
    routes: to.map((one, index) => ({
      name: `r${index}`,
      to: { url: "https://crm.example/x", ...one },
    })),
  });
  const found = warnings(parseSettings(text, "relay.yaml", {}));
  for (const { message } of found)
    for (const secret of [...incoming, token]) expect(message).not.toContain(secret);
  return found;
}

test("random secrets in the documented form: no warning", () => {
  expect(warned({})).toEqual([]);
});

test.each([
  "changeme-changeme-changeme",
  "<your secret>",
  "your-webhook-secret-here",
  "an-example-secret-of-the-docs",
  "0123456789abcdef",
  "xxxxxxxxxxxxxxxxxxxx",
])("an example warns, whatever its length: %s", (text) => {
  expect(warned({ incoming: [text] })).toEqual(["sources.s.signature.secrets[0] is an example"]);
  if (text.length >= 16)
    expect(warned({ token: text })).toEqual(["control.tokens[0].token is an example"]);
});

test.each(["$RELAY_CONTROL_TOKEN", "{{ relay_control_token }}"])("%s warns", (text) => {
  expect(warned({ incoming: [text] })).toEqual([
    "sources.s.signature.secrets[0] is a variable that nothing filled in",
  ]);
});

test("the example of Standard Webhooks warns", () => {
  expect(warned({ to: [{ secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }] })).toEqual([
    "routes[0].to.secret is an example",
  ]);
});

test("short secrets warn by the bytes of their key, not by the length of their text", () => {
  expect(warned({ incoming: ["9f86d081884c7d6"] })).toEqual([
    "sources.s.signature.secrets[0] is shorter than 16 bytes",
  ]);
  expect(warned({ incoming: ["9f86d081884c7d65"] })).toEqual([]);
  expect(warned({ incoming: ["9f86d081884c7d65"], signature: { secretEncoding: "hex" } })).toEqual([
    "sources.s.signature.secrets[0] is shorter than 16 bytes",
  ]);
  expect(warned({ to: [{ secrets: [whsec(1), whsec(2, 23)] }] })).toEqual([
    "routes[0].to.secrets[1] is shorter than 24 bytes",
  ]);
});

test("an outgoing secret that no library verifies warns", () => {
  expect(warned({ to: [{ secret: hex }] })).toEqual([
    "routes[0].to.secret does not begin with whsec_",
  ]);
  expect(messages({ to: [{ secret: "abc" }] })).toEqual([
    {
      path: "routes[0].to.secret",
      message: expect.stringMatching(
        /^is shorter than 24 bytes, and may be guessed; it does not begin with whsec_: /,
      ),
    },
  ]);
});

test("a secret in two places warns, except where one owner uses it twice", () => {
  expect(warned({ second: { account: "more", secret: hex } })).toEqual([
    "sources.t.signature.secrets[0] is the same secret as sources.s.signature.secrets[0]",
  ]);
  expect(warned({ second: { account: "main", secret: hex } })).toEqual([]);
  expect(warned({ token: hex })).toEqual([
    "sources.s.signature.secrets[0] is the same secret as control.tokens[0].token",
  ]);
  expect(warned({ to: [{ secret: whsec(1) }, { secret: whsec(1) }] })).toEqual([]);
  expect(
    warned({ to: [{ secret: whsec(1) }, { secret: whsec(1), url: "https://other.example/" }] }),
  ).toEqual(["routes[1].to.secret is the same secret as routes[0].to.secret"]);
});

test("faults: secret beside secrets, a repeated one, six of them, bad base64", () => {
  const faults = (to: object) =>
    faultsOf(
      JSON.stringify({ routes: [{ name: "r", to: { url: "https://crm.example/x", ...to } }] }),
    ).map((line) => line.replace(/^\S+ /, ""));
  expect(faults({ secret: whsec(1), secrets: [whsec(2)] })).toEqual([
    "routes[0].to.secrets: is given beside secret; give one of the two",
  ]);
  expect(faults({ secrets: [whsec(1), whsec(1)] })).toEqual([
    "routes[0].to.secrets[1]: is the same secret as secrets[0]",
  ]);
  expect(faults({ secrets: [] })).toHaveLength(1);
  expect(faults({ secrets: [1, 2, 3, 4, 5, 6].map((byte) => whsec(byte)) })).toHaveLength(1);
  expect(faults({ secrets: ["whsec_%"] })).toEqual([
    "routes[0].to.secrets[0]: is not base64 after whsec_",
  ]);
});
