import fc from "fast-check";
import { expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { createRedactor, redacted } from "../../../src/model/redact.ts";
import { Secret } from "../../../src/model/secret.ts";
import { runSteps } from "../../../src/model/steps.ts";

/** Secrets with the characters that encoders change. */
const secretText = fc.string({
  unit: fc.constantFrom(..."aZ09kQ+/=_-.~%&\"'\\<>é "),
  minLength: 12,
  maxLength: 60,
});

const encoders: Readonly<Record<string, (text: string) => string>> = {
  plain: (text) => text,
  json: (text) => JSON.stringify(text),
  "json twice": (text) => JSON.stringify(JSON.stringify({ a: text })),
  "json with escaped slashes": (text) => JSON.stringify(text).replaceAll("/", "\\/"),
  "json for HTML": (text) =>
    JSON.stringify(text).replace(
      /[<>&'+]/g,
      (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0").toUpperCase()}`,
    ),
  "percent-encoding": encodeURIComponent,
  form: (text) => new URLSearchParams({ a: text }).toString(),
  html: (text) =>
    text
      .replaceAll("&", "&amp;")
      .replaceAll("<", "&lt;")
      .replaceAll('"', "&#34;")
      .replaceAll("'", "&#x27;"),
};

test("redacts a secret in text from outside, however it is encoded", () => {
  fc.assert(
    fc.property(
      secretText,
      fc.constantFrom(...Object.keys(encoders)),
      fc.string(),
      fc.string(),
      (secret, encoder, before, after) => {
        const encoded = encoders[encoder]?.(secret) ?? "";
        const { text, bytes } = createRedactor({ some: [new Secret(secret)] });
        const core = encoded
          .replace(/^(?:\\*"|"\{\\"a\\":\\"|a=)/, "")
          .replace(/(?:\\*"|\\"\}")$/, "");
        for (const shown of [
          text(`${before}${encoded}${after}`),
          bytes(Buffer.from(`${before}${encoded}${after}`)).toString(),
        ]) {
          expect(shown).toContain(redacted);
          if (!`${before} ${after}`.includes(core)) expect(shown).not.toContain(core);
        }
      },
    ),
    { numRuns: 200 },
  );
});

test("redacts a secret within base64 and base64url, at any offset", () => {
  fc.assert(
    fc.property(
      secretText,
      fc.string(),
      fc.string(),
      fc.constantFrom("base64", "base64url"),
      (secret, before, after, encoding) => {
        const encoded = Buffer.from(`${before}${secret}${after}`).toString(encoding);
        const shown = createRedactor(new Secret(secret)).text(`<${encoded}>`);
        const [head = "", tail = ""] = shown.slice(1, -1).split(redacted);
        const left = `${Buffer.from(head, encoding).toString()}${Buffer.from(tail.slice(-(tail.length - (tail.length % 4))), encoding).toString()}`;
        expect(shown).toContain(redacted);
        if (!`${before}${after}`.includes(secret)) expect(left).not.toContain(secret);
      },
    ),
    { numRuns: 150 },
  );
});

test("redacts the start of a secret at the cut of an answer", () => {
  const secret = "sk_live_0123456789abcdef/+x";
  const { bytes, text } = createRedactor(new Secret(secret));
  for (let kept = 6; kept < secret.length; kept += 1) {
    const cut = `${"x".repeat(400)} ${secret.slice(0, kept)}`;
    expect(text(cut)).toBe(`${"x".repeat(400)} ${redacted}`);
    expect(bytes(Buffer.from(cut)).toString()).toBe(`${"x".repeat(400)} ${redacted}`);
  }
});

test("keeps the bytes of an answer without secrets, and binary bytes around a secret", () => {
  const { bytes } = createRedactor(new Secret("top-secret-1"));
  const clean = Buffer.from([0xff, 0x00, 0xc3, 0x28, 0x41]);
  expect(bytes(clean)).toBe(clean);
  expect(bytes(Buffer.concat([clean, Buffer.from("top-secret-1"), clean]))).toEqual(
    Buffer.concat([clean, Buffer.from(redacted), clean]),
  );
});

test("redacts a short secret only as a whole word, and a very short one never", () => {
  const { text, line } = createRedactor([new Secret("pass1"), new Secret("on")]);
  expect(text('{"p":"pass1"} pass12 xpass1 on')).toBe(`{"p":"${redacted}"} pass12 xpass1 on`);
  expect(line('{"p":"pass1"}')).toBe('{"p":"pass1"}');
});

const settings = (authorization = "Bearer first-bearer-value") =>
  parseSettings(
    JSON.stringify({
      control: { tokens: [{ name: "ops", token: "control-token-value", scopes: ["read"] }] },
      accounts: { main: { baseUrl: "https://service.example", apiKey: "sk_live_api-key-value" } },
      sources: {
        main: {
          account: "main",
          signature: { service: "acme", secrets: ["whsec_c291cmNlLXNlY3JldC12YWx1ZQ=="] },
        },
      },
      storage: { driver: "postgres", url: "postgres://user:store%2Fpassword@one.example/relay" },
      silence: {
        alertUrl: "https://alerts.example/hooks/T0000/path-token-value?x=query-token-value",
      },
      routes: [
        {
          name: "crm",
          to: {
            url: "https://crm.example/in?token=url-token-value&page=12345678",
            secret: "destination-secret-value",
            headers: { authorization, "x-tenant": "tenant-word", accept: "application/json" },
          },
        },
        {
          name: "basic",
          to: {
            url: "https://b.example",
            headers: { authorization: `Basic ${btoa("user:basic-password")}` },
          },
        },
        { name: "queue", to: { queue: "q", redis: "redis://:queue-password@queue.example" } },
      ],
    }),
    "relay.yaml",
    {},
  );

test("redacts every secret of the settings: tokens, keys, signing secrets, headers and parts of URLs", () => {
  const { text, line } = createRedactor(settings());
  const secrets = [
    "control-token-value",
    "sk_live_api-key-value",
    "whsec_c291cmNlLXNlY3JldC12YWx1ZQ==",
    "c291cmNlLXNlY3JldC12YWx1ZQ==",
    "store/password",
    "https://alerts.example/hooks/T0000/path-token-value?x=query-token-value",
    "path-token-value",
    "query-token-value",
    "url-token-value",
    "destination-secret-value",
    "Bearer first-bearer-value",
    "first-bearer-value",
    btoa("user:basic-password"),
    "user:basic-password",
    "basic-password",
    "queue-password",
  ];
  for (const secret of secrets) {
    expect(text(`<${secret}>`)).toBe(`<${redacted}>`);
    expect(line(`{"a":"${secret}"}`)).toBe(`{"a":"${redacted}"}`);
  }
});

test("redacts every header's value in answers, and only secret ones in log lines", () => {
  const { text, line } = createRedactor(settings());
  expect(text("tenant-word application/json 12345678")).toBe(
    `${redacted} application/json 12345678`,
  );
  expect(line('{"route":"tenant-word"}')).toBe('{"route":"tenant-word"}');
});

test("redacts the new secrets after a reload, and the previous ones until the next", () => {
  const redactor = createRedactor(settings());
  runSteps(redactor.reload(settings("Bearer second-bearer-value")));
  expect(redactor.text("first-bearer-value second-bearer-value")).toBe(`${redacted} ${redacted}`);
  expect(redactor.line("first-bearer-value second-bearer-value")).toBe(`${redacted} ${redacted}`);
});

test("redacts signatures of deliveries, and values that are secret in one answer", () => {
  const { bytes } = createRedactor({});
  const signature = Buffer.alloc(32, 0xfb).toString("base64");
  const echo = (value: string) =>
    bytes(Buffer.from(JSON.stringify({ value })), ["sha256=0123456789abcdef"]).toString();
  const meta = `sha256=${"0f".repeat(32)}`;
  for (const value of [
    `v1,${signature}`,
    encodeURIComponent(`v1,${signature}`),
    meta,
    "sha256=0123456789abcdef",
  ]) {
    expect(echo(value)).toBe(JSON.stringify({ value: redacted }));
  }
});

test("takes linear time, whatever the answer", () => {
  const { text } = createRedactor(
    Array.from({ length: 100 }, (_, n) => new Secret(`\\"/${"+".repeat(20)}secret-number-${n}`)),
  );
  for (const hostile of [
    "\\".repeat(4096),
    "%2525".repeat(800),
    "secr".repeat(1024),
    "secret-number-".repeat(300),
  ]) {
    const before = process.cpuUsage();
    text(hostile);
    // Processor time: a busy machine may stop the process for seconds.
    expect(process.cpuUsage(before).user).toBeLessThan(5_000_000);
  }
});
