import type { RunRecord } from "../world/records.ts";

type RunData = RunRecord["data"];

/** Blanks are trimmed afterwards: beside `\s*` the name would take cubic time on many of them. */
const variable = /\{\{([^{}]+)\}\}/g;

/** `text` with each `{{name}}` filled in from a run's data. A name that the data does not have leaves nothing: the sandbox's choice. */
export function fillText(text: string, data: RunData): string {
  return text.replace(variable, (_, padded: string) => {
    const name = padded.trim();
    return Object.hasOwn(data, name) ? (data[name] as string) : "";
  });
}

/**
 * The body of a request. A text that is an object or list in JSON is one: values go into it as JSON writes them, so that
 * what they say cannot change its structure.
 */
export function fillBody(body: unknown, data: RunData): unknown {
  if (typeof body !== "string") return fillJson(body, data);
  const escaped = Object.fromEntries(Object.entries(data).map(([name, value]) => [name, JSON.stringify(value).slice(1, -1)]));
  try {
    const value: unknown = JSON.parse(fillText(body, escaped));
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Not JSON: a text like any other.
  }
  return fillText(body, data);
}

/** Fills in every text inside a JSON value; keys stay as they are. */
export function fillJson(value: unknown, data: RunData): unknown {
  if (typeof value === "string") return fillText(value, data);
  if (Array.isArray(value)) return value.map((item) => fillJson(item, data));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fillJson(item, data)]));
}

/** A template's variables, filled in. Those that come out empty are left out, so that the contact's data or the fallback takes their place. */
export function fillVariables(variables: Readonly<Record<string, string>>, data: RunData): Record<string, string> {
  const filled = Object.entries(variables).map(([name, text]) => [name, fillText(text, data)] as const);
  return Object.fromEntries(filled.filter(([, text]) => text !== ""));
}
