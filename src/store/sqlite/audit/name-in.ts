import type { Names } from "../names.ts";

/** A damaged file may have lost a name, too: that must not end the audit. */
export function nameIn(names: Names, id: number): string {
  try {
    return names.nameOf(id);
  } catch {
    return `(no name ${id})`;
  }
}
