import { stringify } from "yaml";
import { secretName, urlKeys } from "../model/redact.ts";
import { Secret } from "../model/secret.ts";
import { durationText, rateText, sizeText } from "../model/unit-text.ts";
import { inputSchema, type JsonSchema, shapesOf, shapesUnder } from "./json-schema.ts";
import type { Settings } from "./schema.ts";

/**
 * The settings in effect as YAML: defaults filled in, units as in a settings file, secrets as
 * `[secret <fingerprint>]`.
 */
export function printSettings(settings: Settings): string {
  return stringify(printableSettings(settings), { lineWidth: 0, aliasDuplicateObjects: false });
}

export function printableSettings(settings: Settings): Record<string, unknown> {
  return printable(settings, shapesOf(inputSchema())) as Record<string, unknown>;
}

function printable(value: unknown, shapes: readonly JsonSchema[], key?: string): unknown {
  if (value instanceof Secret) return `[secret ${value.fingerprint()}]`;
  // A setting that is text in the file and a number after parsing has a unit, named by the schema's
  // title.
  if (typeof value === "number")
    return (
      unitTexts.get(shapes.find(({ type }) => type === "string")?.title ?? "")?.(value) ?? value
    );
  // Printed text must load as the same text.
  if (typeof value === "string")
    return withoutCredentials(value, key).replaceAll("${", () => "$${");
  if (Array.isArray(value)) return value.map((item) => printable(item, shapesUnder(shapes, 0)));
  if (typeof value !== "object" || value === null) return value;
  const given = Object.entries(value).filter(([, item]) => item !== undefined);
  const chosen = fitting(shapes, value);
  return Object.fromEntries(
    given.map(([name, item]) => [name, printable(item, shapesUnder(chosen, name), name)]),
  );
}

function fitting(shapes: readonly JsonSchema[], value: object): readonly JsonSchema[] {
  const { kind, driver } = value as { kind?: unknown; driver?: unknown };
  const fits = (chooser: JsonSchema | undefined, chosen: unknown): boolean =>
    chooser?.const === undefined || chooser.const === chosen;
  return shapes.filter(
    ({ properties }) => fits(properties?.["kind"], kind) && fits(properties?.["driver"], driver),
  );
}

const unitTexts: ReadonlyMap<string, (value: number) => string> = new Map([
  ["duration", durationText],
  ["size", sizeText],
  ["rate", rateText],
]);

/** URLs may contain secrets: `user:password@`, or query parameters such as `token=`. */
function withoutCredentials(text: string, key: string | undefined): string {
  const url = key !== undefined && urlKeys.has(key) ? URL.parse(text) : null;
  if (url === null) return text;
  const named = [...url.searchParams.keys()].filter((name) => secretName.test(name));
  if (url.username === "" && url.password === "" && named.length === 0) return text;
  if (url.username !== "") url.username = "***";
  if (url.password !== "") url.password = "***";
  for (const name of named) url.searchParams.set(name, "***");
  return url.href;
}
