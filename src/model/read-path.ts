/**
 * The value at a dotted path (`message.error.code`, `items.0.id`) inside parsed JSON; undefined when
 * any step is missing. Own properties only, so `constructor` or `__proto__` in a path finds nothing.
 */
export function readPath(root: unknown, path: string): unknown {
  let value: unknown = root;
  if (!path.includes(".")) return step(value, path);
  for (const key of path.split(".")) {
    value = step(value, key);
    if (value === undefined) return undefined;
  }
  return value;
}

function step(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined;
}
