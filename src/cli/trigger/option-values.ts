import { InvalidArgumentError } from "commander";
import { signatureSettingsSchema } from "../../event/signature-settings.ts";
import { rateSchema } from "../../event/units.ts";

/** One `--set`: where, and the JSON text that is put there. */
export interface SetOption {
  readonly path: string;
  readonly given: string;
}

/** `data.status=failed`; may be repeated. */
export function set(text: string, before: readonly SetOption[] = []): SetOption[] {
  const at = text.indexOf("=");
  const path = text.slice(0, at);
  if (at < 1 || path.split(".").includes("")) throw new InvalidArgumentError("It must be path=value, such as data.status=failed.");
  return [...before, { path, given: text.slice(at + 1) }];
}

/** A share of events below 1, or from 1 on how many times more each of them. */
export function duplicate(text: string): number {
  const number = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text) || number <= 0 || (number > 1 && !Number.isInteger(number)) || number > 1000) {
    throw new InvalidArgumentError("It must be a share below 1, such as 0.1, or a whole number of copies of each, such as 2.");
  }
  return number;
}

/** `50/s`, `300/m`; a number alone is per second. Posts per second. */
export function rate(text: string): number {
  const parsed = rateSchema.safeParse(/^[\d.]+$/.test(text) ? `${text}/s` : text);
  if (!parsed.success) throw new InvalidArgumentError("It must be a rate, such as 50/s or 300/m.");
  return parsed.data;
}

/** `algorithm=sha1`; may be repeated. The names are those of the settings. */
export function signature(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const at = text.indexOf("=");
  const [key, value] = [text.slice(0, at), text.slice(at + 1)];
  const parsed = signatureSettingsSchema.safeParse({ service: "acme", [key]: value });
  const fault = parsed.error?.issues.find(({ code, path }) => code === "unrecognized_keys" || (path[0] === key && code !== "custom"));
  if (at < 1 || fault !== undefined)
    throw new InvalidArgumentError("It must be key=value as under signature in the settings, such as encoding=base64.");
  return { ...before, [key]: value };
}

export function several(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}
