import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import type { Command } from "commander";
import { parseAllDocuments } from "yaml";
import { commands } from "../../src/cli/commands.ts";
import { createProgram } from "../../src/cli/main.ts";
import { faultLine, SettingsError } from "../../src/config/fault.ts";
import { inputSchema } from "../../src/config/json-schema.ts";
import { parseSettings } from "../../src/config/load.ts";
import { selfSigned } from "../../test/integration/url-destination/self-signed.ts";
import { type Fault, type Page, walk } from "./pages.ts";

/** Kinds of blocks that hold no code of ours. */
const free = new Set([
  "text",
  "mermaid",
  "crontab",
  "http",
  "nginx",
  "ini",
  "promql",
  "diff",
  "caddyfile",
  "haproxy",
  "sql",
]);

/**
 * Faults of a page's code blocks: commands that do not exist, settings that do not load, JSON and
 * code that do not parse.
 */
export async function checkBlocks({ path, tree }: Page): Promise<Fault[]> {
  const found: Fault[] = [];
  for (const { type, lang, meta, value = "", loc } of walk(tree)) {
    if (type !== "CodeBlock") continue;
    for (const message of await faultsOf(lang ?? "", meta ?? "", value))
      found.push({ path, line: loc.start.line, message });
  }
  return found;
}

async function faultsOf(lang: string, meta: string, text: string): Promise<string[]> {
  switch (lang) {
    case "sh":
      return [
        ...attempt(() => checkShell(text)),
        ...(await Promise.all(commandsIn(text).map(checkCommand))).flat(),
      ];
    case "yaml":
      return meta === ""
        ? checkSettings(text)
        : parseAllDocuments(text).flatMap(({ errors }) => errors.map(({ message }) => message));
    case "json":
      return attempt(() => JSON.parse(text));
    case "jsonl":
      return text.split("\n").flatMap((line) => attempt(() => JSON.parse(line)));
    case "js":
    case "ts":
      // checkCode compiles all of them together.
      return [];
    default:
      return free.has(lang)
        ? []
        : [
            lang === ""
              ? "a code block without a language"
              : `a code block of unknown language ${lang}`,
          ];
  }
}

function attempt(run: () => unknown): string[] {
  try {
    run();
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

/** Throws for a script that bash cannot parse. */
function checkShell(script: string): void {
  try {
    execFileSync("bash", ["-n"], { input: script, stdio: ["pipe", "ignore", "pipe"] });
  } catch (error) {
    throw new Error(String((error as { readonly stderr: Buffer }).stderr).split("\n")[0]);
  }
}

/**
 * The words of each call of wamid-relay in a shell script. After `-u` it is the user of that name.
 */
export function commandsIn(script: string): string[][] {
  const lines = script.replaceAll("\\\n", " ").split("\n");
  return lines.flatMap((line) =>
    [
      ...line.matchAll(
        /(?:^|[|&;(]|\s)(?:npx )?(?<!-u )(?:wamid-relay|npm run -s relay --)(?=\s)([^|&;)]*)/g,
      ),
    ].flatMap(([, rest = ""], index, all) => {
      const before = line.slice(0, all[index]?.index ?? 0);
      // What xargs adds.
      const added = /\bxargs\s*$/.test(before) ? ["…"] : [];
      return before.includes("#") || /\b(?:docker|kubectl|which|image)\b/.test(before)
        ? []
        : [[...wordsOf(rest), ...added]];
    }),
  );
}

function wordsOf(text: string): string[] {
  const words = text.match(/(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'])+/g) ?? [];
  const end = words.findIndex((word) => word.startsWith("#") || /^\d?[<>]/.test(word));
  return end === -1 ? words : words.slice(0, end);
}

const io = {
  out: () => {},
  err: () => {},
  isTerminal: false,
  env: {},
  readStdin: async () => Buffer.alloc(0),
};

async function checkCommand(words: readonly string[]): Promise<string[]> {
  const [name = ""] = words;
  if (name.startsWith("-"))
    return ["--help", "--version"].includes(name) ? [] : [`wamid-relay has no option ${name}`];
  if (name === "<command>" || name === "…") return [];
  if (!commands.some((each) => each.name === name)) return [`wamid-relay has no command ${name}`];
  const program = await createProgram(io, name);
  let command = program.commands.find((each) => each.name() === name) as Command;
  let rest = words.slice(1);
  while (command.commands.length > 0) {
    const sub = command.commands.find((each) => each.name() === rest[0]);
    if (sub === undefined)
      return rest[0] === "--help" ? [] : [`wamid-relay ${name} has no command ${rest[0] ?? ""}`];
    command = sub;
    rest = rest.slice(1);
  }
  return checkWords(command, words.join(" "), rest);
}

function checkWords(command: Command, all: string, words: readonly string[]): string[] {
  let given = 0;
  for (let n = 0; n < words.length; n += 1) {
    const word = words[n] as string;
    if (!word.startsWith("-") || word === "-") {
      given += 1;
      continue;
    }
    const [flag = ""] = word.split("=");
    if (flag === "--help") return [];
    const option = command.options.find(({ long, short }) => flag === long || flag === short);
    if (option === undefined) return [`wamid-relay ${all}: unknown option ${flag}`];
    if ((option.required || option.optional) && !word.includes("=")) n += 1;
  }
  const { registeredArguments: known } = command;
  const least = known.filter(({ required }) => required).length;
  const most = known.some(({ variadic }) => variadic) ? Number.POSITIVE_INFINITY : known.length;
  const range =
    least === most
      ? least
      : most === Number.POSITIVE_INFINITY
        ? `${least} or more`
        : `${least} to ${most}`;
  return given < least || given > most
    ? [`wamid-relay ${all}: ${given} arguments, and it takes ${range}`]
    : [];
}

const sections = new Set(Object.keys(inputSchema().properties ?? {}));
const secret = "0123456789abcdef0123456789abcdef";
const url = "https://downstream.example/hook";

/** Where a part of the settings may stand, so that it loads alone. */
const places: readonly ((part: unknown) => object)[] = [
  (part) => part as object,
  (part) => ({ sources: { main: part } }),
  (part) => ({
    sources: { main: { signature: { service: "acme", secrets: [secret] }, ...(part as object) } },
  }),
  (part) => ({ accounts: { main: part } }),
  (part) => ({ routes: part }),
  (part) => ({ routes: [{ to: { url }, name: "example", ...(part as object) }] }),
  (part) => ({ routes: [{ name: "example", to: { url, ...(part as object) } }] }),
  (part) => ({ routes: [{ name: "example", match: { where: part }, to: { url } }] }),
];

/** Also valid as hex, for `secretEncoding`. */
const secretOf = (name: string) => createHash("sha256").update(name).digest("hex");

const pair = selfSigned();

/** As it stands between quotes. */
function contentOf(file: string): string {
  const content = file.endsWith("key.pem") ? pair.key : file.endsWith(".pem") ? pair.cert : secret;
  return content.replaceAll("\n", "\\n");
}

function exampleOf(variable: string): string {
  if (variable.includes("REDIS")) return "redis://user:pass@redis.example:6379/0";
  if (variable.includes("POSTGRES")) return "postgres://user:pass@postgres.example:5432/relay";
  return variable.includes("URL") ? url : secretOf(variable);
}

/** Variables and files that the settings name have a value here. */
function checkSettings(text: string): string[] {
  const filled = text
    .replace(/\$\{file:([^}]*)\}/g, (_, file: string) => contentOf(file))
    .replace(/\$\{(\w+):-([^}]*)\}/g, "$2");
  const env: Record<string, string> = {};
  for (const [, name = ""] of filled.matchAll(/\$\{(\w+)\}/g)) {
    env[name] = exampleOf(name);
  }
  const [document, second] = parseAllDocuments(filled);
  if (document === undefined || second !== undefined) return ["settings are one YAML document"];
  if (document.errors.length > 0) return document.errors.map(({ message }) => message);
  const part: unknown = document.toJS();
  const isWhole =
    typeof part === "object" &&
    part !== null &&
    Object.keys(part).every((key) => sections.has(key));
  const [first = [], ...others] = (isWhole ? places.slice(0, 1) : places.slice(1)).map((place) =>
    load(place(part), env),
  );
  return first.length === 0 || others.some((faults) => faults.length === 0) ? [] : first;
}

function load(settings: object, env: Readonly<Record<string, string>>): string[] {
  try {
    // A source needs an account.
    const whole =
      "sources" in settings && !("accounts" in settings)
        ? { accounts: { main: {} }, ...settings }
        : settings;
    parseSettings(JSON.stringify(whole), "settings", env);
    return [];
  } catch (error) {
    if (error instanceof SettingsError) return error.faults.map(faultLine);
    throw error;
  }
}
