import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { checkReferences } from "./check-references.ts";
import { coerceVariables } from "./coerce.ts";
import { type Fault, pathText, SettingsError } from "./fault.ts";
import { goodParts, readOnce } from "./parts.ts";
import { type Settings, settingsSchema } from "./schema.ts";
import type { Environment } from "./substitute.ts";
import { type Finding, type Place, placeKey, readTree, type Tree } from "./tree.ts";
import { findingsOf, issueText } from "./wording.ts";

/** Far more than any settings; a data file given by mistake must not be parsed for minutes. */
const largestFile = 1024 * 1024;

/**
 * Reads the settings file at `path`, fills `${…}` in from `env` and checks everything.
 * Throws {@link SettingsError} with all faults, and nothing else.
 */
export function loadSettings(path: string, env: Environment): Settings {
  const fault = (message: string) => new SettingsError([{ path: "", message, source: path }]);
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw fault(readErrorText((error as NodeJS.ErrnoException).code));
  }
  if (bytes.length > largestFile) throw fault("is larger than 1 MiB: is this the settings file?");
  if (!isUtf8(bytes)) throw fault("is not UTF-8 text");
  return parseSettings(bytes.toString("utf8"), path, env);
}

function readErrorText(code: string | undefined): string {
  if (code === "ENOENT") return "there is no such settings file (--config says where it is)";
  if (code === "EISDIR") return "is a directory, not a settings file";
  if (code === "EACCES" || code === "EPERM") return "may not be read by this user";
  return `cannot be read (${code ?? "unknown error"})`;
}

/** Like {@link loadSettings}, for text already read. `file` is its name in the faults. */
export function parseSettings(text: string, file: string, env: Environment): Settings {
  const tree = readTree(text, env);
  const faults = (findings: readonly Finding[]) => new SettingsError(toFaults(findings, tree, file));
  if (!tree.readable) throw faults(tree.findings);
  if (tree.value === null || tree.value === "") throw faults([{ path: [], message: "is empty: there are no settings in it" }]);
  if (typeof tree.value !== "object" || Array.isArray(tree.value)) {
    throw faults([{ path: [], message: "must be a mapping of settings (server:, sources:, routes:, …)" }]);
  }
  dropEmptySections(tree.value as Record<string, unknown>);
  const how = { ...readOnce, error: issueText };
  const first = settingsSchema.safeParse(tree.value, how);
  coerceVariables(tree, first.error?.issues ?? []);
  const parsed = settingsSchema.safeParse(tree.value, how);
  const findings = [
    ...tree.findings,
    ...(parsed.success ? [] : findingsOf(parsed.error.issues).map((finding) => withoutHidden(finding, tree.places))),
    ...checkReferences(goodParts(tree.value)),
  ];
  if (!parsed.success || findings.length > 0) throw faults(withoutFollowing(findings, tree));
  return parsed.data;
}

/** `routes:` with every entry commented out is a section not given. Only at the top: an empty `secret:` must not pass. */
function dropEmptySections(top: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(top)) if (value === null) delete top[key];
}

/** A schema's own message may quote the value, as that of a regular expression does; one from the environment is not to be seen. */
function withoutHidden(finding: Finding, places: ReadonlyMap<string, Place>): Finding {
  const hidden = finding.mayQuote === true ? (places.get(placeKey(finding.path))?.hidden ?? []) : [];
  if (!hidden.some((part) => finding.message.includes(part))) return finding;
  return { ...finding, message: "is not valid (the value comes from a variable and is not shown)" };
}

/** Leaves out what is wrong with a value only because reading it already failed, such as a URL whose variable is not set. */
function withoutFollowing(findings: readonly Finding[], tree: Tree): Finding[] {
  const failed = new Set(tree.findings.map((finding) => placeKey(finding.path)));
  return findings.filter((finding, index) => index < tree.findings.length || !failed.has(placeKey(finding.path)));
}

function toFaults(findings: readonly Finding[], tree: Tree, file: string): Fault[] {
  return findings
    .map((finding) => {
      const place = placeOf(finding, tree.places);
      const offset = finding.offset ?? (finding.isAboutKey === true ? place.keyOffset : place.offset);
      const { line, col } = tree.lines.linePos(offset);
      const origins = [...new Set(place.origins)];
      const from =
        origins.length > 0 && finding.offset === undefined && finding.isAboutKey !== true ? ` from ${origins.join(" and ")}` : "";
      // Before the first line is counted (an empty file), the position is 0:0.
      const source = `${file}:${Math.max(line, 1)}:${Math.max(col, 1)}${from}`;
      return { offset, fault: { path: pathText(finding.path), message: finding.message, source } };
    })
    .sort((a, b) => a.offset - b.offset)
    .map(({ fault }) => fault);
}

/** The place of a path or, when it is not in the file, of the nearest part above it that is. */
function placeOf(finding: Finding, places: ReadonlyMap<string, Place>): Place {
  for (let length = finding.path.length; length >= 0; length--) {
    const place = places.get(placeKey(finding.path.slice(0, length)));
    if (place !== undefined) return place;
  }
  return { offset: 0, keyOffset: 0, origins: [], hidden: [], variable: "none" };
}
