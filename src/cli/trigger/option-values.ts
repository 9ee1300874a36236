import { InvalidArgumentError } from "commander";

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

export function several(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}
