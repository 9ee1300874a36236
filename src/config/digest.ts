import { createHmac } from "node:crypto";
import { Secret } from "../model/secret.ts";
import { runSteps, type Steps } from "../model/steps.ts";
import type { Settings } from "./schema.ts";

/** Digests by the path of the setting: `routes.crm.to.url`, `sources.main.signature.secrets[0]`. */
export type SettingsDigests = Readonly<Record<string, string>>;

/**
 * A digest of every setting in effect. Equal digests mean equal values. `key` is the id of the stored data: without it,
 * nobody can test guesses of a secret against its digest.
 */
export function digestSettings(settings: Settings, key: string): SettingsDigests {
  return runSteps(digesting(settings, key));
}

/** {@link digestSettings} in steps: a thousand routes have 20,000 settings. */
export function* digesting(settings: Settings, key: string): Steps<SettingsDigests> {
  const digests: [path: string, digest: string][] = [];
  for (const [path, value] of leavesOf(settings, "")) {
    digests.push([path, digest(key, value)]);
    yield;
  }
  return Object.fromEntries(digests);
}

/** A digest of one secret, as {@link digestSettings} has it. */
export function digestSecret(secret: Secret, key: string): string {
  return digest(key, textOf(secret));
}

/** Identifies stored data by their id, without disclosing the id. */
export function digestDataId(key: string): string {
  return digest(key, "data");
}

function digest(key: string, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url").slice(0, 16);
}

function leavesOf(value: unknown, path: string): [path: string, text: string][] {
  if (value === undefined) return [];
  if (value instanceof Secret || typeof value !== "object" || value === null) return [[path, textOf(value)]];
  const entries = Array.isArray(value) ? namedEntries(value, path) : Object.entries(value).map(([key, item]) => [under(path, key), item]);
  // An empty list differs from a missing one.
  if (entries.length === 0) return [[path, JSON.stringify(value)]];
  return entries.flatMap(([at, item]) => leavesOf(item, at as string));
}

function textOf(value: unknown): string {
  return value instanceof Secret ? `secret ${value.reveal()}` : JSON.stringify(value);
}

/** Routes and tokens go by their names, so that one more at the top does not change all others. */
function namedEntries(items: readonly unknown[], path: string): [string, unknown][] {
  const names = items.map((item) => (item as { name?: unknown } | null)?.name);
  const isNamed = names.every((name) => typeof name === "string") && new Set(names).size === names.length;
  return items.map((item, index) => [isNamed ? under(path, String(names[index])) : `${path}[${index}]`, item]);
}

function under(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

/** Paths in which two sets of settings differ: those of the settings file first. */
export function differingPaths(file: SettingsDigests, running: SettingsDigests): string[] {
  return [...new Set([...Object.keys(file), ...Object.keys(running)])].filter((path) => file[path] !== running[path]);
}
