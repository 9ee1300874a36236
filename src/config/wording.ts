import type { z } from "zod";
import { destinationKeys } from "../deliver/settings.ts";
import { issueText, jsonKinds } from "../model/issue-text.ts";
import { nearest } from "../model/nearest.ts";
import type { SettingsPath } from "./fault.ts";
import { knownKeys } from "./json-schema.ts";
import type { Finding } from "./tree.ts";

const kinds = { ...jsonKinds, object: "a mapping", record: "a mapping" };

/** Replaces zod's messages. Messages of the schemas take precedence. */
export function settingText(issue: z.core.$ZodRawIssue): string {
  if (issue.input === null) return "is empty";
  const isQuoteMissing = issue.code === "invalid_type" && issue.expected === "string" && issue.input !== undefined;
  return `${issueText(issue, kinds)}${isQuoteMissing ? " (put it in quotes)" : ""}`;
}

/** The findings for zod's issues: one for each unknown key, and for a union those of the shape that was intended. */
export function findingsOf(issues: readonly z.core.$ZodIssue[], base: SettingsPath = []): Finding[] {
  return issues.flatMap((issue) => {
    const path = [...base, ...issue.path];
    switch (issue.code) {
      case "unrecognized_keys":
        return issue.keys.map((key) => ({ path: [...path, key], message: unknownKeyText(path, key), isAboutKey: true }));
      case "invalid_key":
        return findingsOf(issue.issues as z.core.$ZodIssue[], path).map((finding) => ({ ...finding, isAboutKey: true }));
      case "invalid_union":
        return unionFindings(issue, path);
      default:
        return [{ path, message: issue.message, mayQuote: issue.code === "custom" }];
    }
  });
}

function unknownKeyText(path: SettingsPath, key: string): string {
  const known = knownKeys(path);
  // A key of another shape, such as `mode` on a source of kind events.
  if (known.has(key)) return `unknown setting here (it belongs to another ${shapeName(path)})`;
  const candidate = nearest(key, known);
  if (candidate !== undefined) return `unknown setting (did you mean ${candidate}?)`;
  return `unknown setting${known.size > 0 ? ` (there are: ${[...known].join(", ")})` : ""}`;
}

function shapeName(path: SettingsPath): string {
  if (isDestination(path.slice(0, 3))) return "kind of destination";
  return path[0] === "sources" ? "kind of source" : "shape";
}

function unionFindings(issue: z.core.$ZodIssueInvalidUnion, path: SettingsPath): Finding[] {
  const discriminator = issue as { options?: readonly unknown[] };
  if (discriminator.options !== undefined) {
    const options = discriminator.options.filter((option) => typeof option === "string");
    return [{ path, message: `must be ${options.length > 2 ? `one of ${options.join(", ")}` : options.join(" or ")}` }];
  }
  if (isDestination(path)) return destinationFindings(issue, path);
  const candidates = issue.errors.filter((branch) => !branch.some((inner) => inner.path.length === 0 && isAboutKind(inner)));
  if (candidates.length === 1) return findingsOf(candidates[0] as z.core.$ZodIssue[], path);
  return [{ path, message: issue.message }];
}

/** A source's `to` (`mode: proxy`) is not a union: it takes a URL only. */
function isDestination(path: SettingsPath): boolean {
  return path.length === 3 && path[0] === "routes" && path[2] === "to";
}

/** Each kind of destination requires a key that no other kind has. */
function destinationFindings({ errors, input }: z.core.$ZodIssueInvalidUnion, path: SettingsPath): Finding[] {
  // Not a mapping: every kind reports the same fault.
  if (typeof input !== "object" || input === null || Array.isArray(input)) return findingsOf(errors[0] ?? [], path);
  const [kind, ...others] = destinationKeys.filter((key) => Object.hasOwn(input, key));
  const choice = destinationKeys.join(", ");
  if (others.length > 0) {
    const message = `stands beside ${kind}; a destination is one of ${choice}`;
    return others.map((key) => ({ path: [...path, key], message, isAboutKey: true }));
  }
  if (kind !== undefined) return findingsOf(errors[destinationKeys.indexOf(kind)] ?? [], path);
  const known = knownKeys(path);
  const slips = Object.keys(input).filter((key) => !known.has(key));
  return [
    ...slips.map((key) => ({ path: [...path, key], message: unknownKeyText(path, key), isAboutKey: true })),
    { path, message: `must have one of ${choice}` },
  ];
}

function isAboutKind(issue: z.core.$ZodIssue): boolean {
  return issue.code === "invalid_type" || issue.code === "invalid_union";
}
