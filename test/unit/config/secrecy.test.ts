import { inspect } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { SettingsError } from "../../../src/config/fault.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { printableSettings, printSettings } from "../../../src/config/print.ts";

/** Text that turns up nowhere by chance. */
const secretText = fc
  .string({ unit: fc.constantFrom(..."QXZJ0123456789"), minLength: 16, maxLength: 32 })
  .map((text) => `S${text}`);

const file = (secrets: readonly string[]) => `
control:
  tokens:
    - { name: ops, token: "${secrets[0]}", scopes: [read] }
accounts:
  main:
    apiKey: ${secrets[1]}
sources:
  main:
    account: main
    signature:
      service: acme
      secrets:
        - ${secrets[2]}
        - '${secrets[3]}'
routes:
  - name: r
    match: { where: { a: { $regex: "^a" } } }
    to:
      url: https://crm.example
      secret: ${secrets[4]}
      headers:
        authorization: "Bearer ${secrets[5]}"
  - name: q
    to: { queue: q, redis: "redis://user:${secrets[6]}@redis.example" }
`;
const variables = ["T", "K", "A", "B", "C", "H", "R"];
const places = variables.map((name) => `\${${name}}`);

function everythingShown(
  text: string,
  env: Record<string, string>,
): { loaded: boolean; shown: string } {
  const everyWay = { depth: null, showHidden: true, getters: true } as const;
  try {
    const settings = parseSettings(text, "relay.yaml", env);
    const shown = [
      printSettings(settings),
      JSON.stringify(printableSettings(settings)),
      JSON.stringify(settings),
      inspect(settings, everyWay),
    ];
    return { loaded: true, shown: shown.join("\n") };
  } catch (error) {
    expect(error).toBeInstanceOf(SettingsError);
    const { message, stack, faults } = error as SettingsError;
    return {
      loaded: false,
      shown: [
        message,
        stack,
        JSON.stringify(faults),
        JSON.stringify(error),
        inspect(error, everyWay),
      ].join("\n"),
    };
  }
}

const sevenSecrets = fc.uniqueArray(secretText, { minLength: 7, maxLength: 7 });

test("no secret shows in settings that load, from the file or from the environment", () => {
  fc.assert(
    fc.property(sevenSecrets, fc.boolean(), (secrets, fromFile) => {
      const env = Object.fromEntries(
        variables.map((name, index) => [name, secrets[index] as string]),
      );
      const { loaded, shown } = everythingShown(file(fromFile ? secrets : places), env);
      expect(loaded).toBe(true);
      for (const secret of secrets) expect(shown).not.toContain(secret);
    }),
    { numRuns: 30 },
  );
});

test("no secret shows in the faults of a file with a slip anywhere in it", () => {
  const slip = fc.record({
    at: fc.nat(),
    remove: fc.nat({ max: 1 }),
    insert: fc.constantFrom(
      "",
      ":",
      " ",
      "\n",
      '"',
      "'",
      "{",
      "[",
      "!",
      "&",
      "*",
      "|",
      "\t",
      "-",
      "$",
      "\\",
    ),
  });
  let failed = 0;
  fc.assert(
    fc.property(sevenSecrets, slip, fc.boolean(), (secrets, { at, remove, insert }, fromFile) => {
      const text = file(fromFile ? secrets : places);
      const cut = at % text.length;
      const env = Object.fromEntries(
        variables.map((name, index) => [name, secrets[index] as string]),
      );
      const { loaded, shown } = everythingShown(
        text.slice(0, cut) + insert + text.slice(cut + remove),
        env,
      );
      if (!loaded) failed++;
      // The slip may have cut a secret in two, so its halves count as well.
      for (const secret of secrets)
        for (const half of [secret.slice(0, 8), secret.slice(-8)])
          expect(shown).not.toContain(half);
    }),
    { numRuns: 100 },
  );
  expect(failed).toBeGreaterThan(12);
});

test("no value of a variable shows in faults, wherever in the file it stands", () => {
  const where = [
    "server",
    "storage",
    "control",
    "accounts",
    "sources",
    "tracking",
    "routes",
    "retention",
    "log",
  ];
  const values = [
    ...where.map((key) => `${key}: \${X}`),
    "server: { port: '${X}', host: 'a${X}', bodyLimit: '${X}', trustProxy: ['${X}'] }",
    "control: { tokens: [{ name: '${X} !', token: a, scopes: ['${X}'] }] }",
    "accounts: { a: { baseUrl: '${X}', plan: '${X}', share: '${X}' } }",
    "accounts: { a: {} }\nsources: { s: { account: '${X}', kind: '${X}' }, t: { account: '${X}', signature: { preset: '${X}', service: '${X}!', secrets: [], content: '${X}' } } }",
    "accounts: { a: {} }\nsources: { s: { account: '${X}', signature: { service: a, secrets: [x] }, fields: { wamid: '${X}' } } }",
    "routes: [{ name: '${X} ', emit: '${X}', to: { url: 'http://${X} /', timeout: '${X}', rate: '${X}', headers: { a: '${X}\\n' } } }]",
    "routes: [{ name: r, match: { sources: ['${X}'], where: { a: { $regex: '(${X}' }, b: { $exists: '${X}' } } }, to: { url: 'http://localhost/${X}' } }]",
    "routes: [{ name: '${X}', to: { url: 'http://${X}.localhost' } }, { name: '${X}', to: { url: 'http://${X}.localhost' } }]",
  ];
  fc.assert(
    fc.property(secretText, fc.constantFrom(...values), (secret, text) => {
      const { loaded, shown } = everythingShown(text, { X: secret });
      expect(loaded).toBe(false);
      expect(shown).not.toContain(secret);
      expect(shown.toLowerCase()).not.toContain(secret.toLowerCase());
    }),
    { numRuns: 100 },
  );
});

const yamlish = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }),
  fc.string({ unit: fc.constantFrom(...":-{}[]&*!|>#'\"\n\t ,?%@`ab01$<~"), maxLength: 60 }),
  fc.anything({ withNullPrototype: false, maxDepth: 4 }).map((value) => {
    try {
      return stringify(value) ?? "";
    } catch {
      return "";
    }
  }),
  fc
    .record(
      {
        server: fc.jsonValue(),
        control: fc.record({ tokens: fc.jsonValue() }),
        sources: fc.dictionary(
          fc.string(),
          fc.oneof(
            fc.jsonValue(),
            fc.record({
              account: fc.jsonValue(),
              kind: fc.constantFrom("events", "automation-request", 1),
              signature: fc.jsonValue(),
              to: fc.jsonValue(),
            }),
          ),
        ),
        routes: fc.array(
          fc.record({
            name: fc.jsonValue(),
            match: fc.record({ where: fc.jsonValue(), events: fc.jsonValue() }),
            to: fc.record({ url: fc.oneof(fc.webUrl(), fc.jsonValue()), headers: fc.jsonValue() }),
          }),
        ),
      },
      { requiredKeys: [] },
    )
    .map((value) => JSON.stringify(value)),
);

test("loading any text gives settings or a SettingsError with faults, and nothing else", () => {
  fc.assert(
    fc.property(yamlish, (text) => {
      try {
        parseSettings(text, "f", { a: "1" });
      } catch (error) {
        expect(error).toBeInstanceOf(SettingsError);
        expect((error as SettingsError).faults.length).toBeGreaterThan(0);
        for (const { message, source } of (error as SettingsError).faults) {
          expect(message).not.toBe("");
          expect(source).toMatch(/^f:[1-9]\d*:[1-9]\d*/);
        }
      }
    }),
    { numRuns: 250 },
  );
});
