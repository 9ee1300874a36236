/** A Markdown table. Pipes inside cells are escaped; a table without rows is empty text. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return "";
  return [
    line(head),
    line(head.map(() => "---")),
    ...rows.map((cells) => line(cells.map(cell))),
  ].join("\n");
}

const line = (cells: readonly string[]): string =>
  `| ${cells.join(" | ")} |`.replace(/\| {2}(?=\|)/g, "| ");
const cell = (text: string): string =>
  outsideCode(text.replace(/\s+/g, " ").trim()).replaceAll("|", "\\|");

/** Markdown reads `<name>` as HTML, except inside code. */
const outsideCode = (text: string): string =>
  text
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith("`") ? part : part.replaceAll("<", "\\<")))
    .join("");

export const code = (text: string): string => (text === "" ? "" : `\`${text}\``);

export const block = (language: string, text: string): string =>
  `\`\`\`${language}\n${text.trimEnd()}\n\`\`\``;

/** The fragment that GitHub gives a heading. */
export function anchor(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(" ", "-");
}

/** A link to a heading of the same page. */
export const linkTo = (heading: string): string => `[${heading}](#${anchor(heading)})`;

/** Blank lines between parts; empty ones are left out. */
export const paragraphs = (...parts: readonly string[]): string =>
  parts.filter((part) => part !== "").join("\n\n");

const widest = 100;

/** JSON with what fits on a line on one line. */
export function pretty(value: unknown, indent = ""): string {
  const flat = oneLine(value);
  if (typeof value !== "object" || value === null || indent.length + flat.length <= widest)
    return flat;
  const inner = `${indent}  `;
  const isList = Array.isArray(value);
  const parts = Object.entries(value).map(
    ([key, part]) => inner + (isList ? "" : `${JSON.stringify(key)}: `) + pretty(part, inner),
  );
  return `${isList ? "[" : "{"}\n${parts.join(",\n")}\n${indent}${isList ? "]" : "}"}`;
}

function oneLine(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(oneLine).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const parts = Object.entries(value).map(
    ([key, part]) => `${JSON.stringify(key)}: ${oneLine(part)}`,
  );
  return parts.length === 0 ? "{}" : `{ ${parts.join(", ")} }`;
}
