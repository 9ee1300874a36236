import { InvalidArgumentError } from "commander";
import { signatureSettingsSchema } from "../../event/signature-settings.ts";
import { rateSchema } from "../../event/units.ts";

/** `50/s`, `300/m`; a number alone is per second. Posts per second. */
export function rate(text: string): number {
  const parsed = rateSchema.safeParse(/^[\d.]+$/.test(text) ? `${text}/s` : text);
  if (!parsed.success) throw new InvalidArgumentError("It must be a rate, such as 50/s or 300/m.");
  return parsed.data;
}

/** `algorithm=sha1`: the name, one of those of the settings, and its value. */
export function signature(text: string): [string, string] {
  const at = text.indexOf("=");
  const [key, value] = [text.slice(0, at), text.slice(at + 1)];
  const parsed = signatureSettingsSchema.safeParse({ service: "acme", [key]: value });
  const fault = parsed.error?.issues.find(({ code, path }) => code === "unrecognized_keys" || (path[0] === key && code !== "custom"));
  if (at < 1 || fault !== undefined)
    throw new InvalidArgumentError("It must be key=value as under signature in the settings, such as encoding=base64.");
  return [key, value];
}
