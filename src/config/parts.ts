import { type RouteSettings, routeSchema, type SourceSettings, sourceSchema, type TokenSettings, tokenSchema } from "./schema.ts";

/** For zod. Settings are read once or twice in a process: compiling code for that takes longer than it saves. */
export const readOnce = { jitless: true } as const;

/** What the parts of a file name and refer to. */
export interface Parts {
  readonly accounts: readonly string[];
  /** Names of all sources, also of those that have faults. */
  readonly sourceNames: readonly string[];
  readonly sources: readonly (readonly [string, SourceSettings])[];
  readonly routes: readonly (readonly [number, RouteSettings])[];
  readonly tokens: readonly (readonly [number, TokenSettings])[];
}

/** Those parts of a settings file that are good by themselves, so that a fault in one does not hide what is wrong between the others. */
export function goodParts(value: unknown): Parts {
  const top = entries(value);
  const accounts = entries(top["accounts"]);
  const sources = entries(top["sources"]);
  return {
    accounts: Object.keys(accounts),
    sourceNames: Object.keys(sources),
    sources: Object.entries(sources).flatMap(([name, raw]) => {
      const parsed = sourceSchema.safeParse(raw, readOnce);
      return parsed.success ? [[name, parsed.data] as const] : [];
    }),
    routes: list(top["routes"]).flatMap((raw, index) => {
      const parsed = routeSchema.safeParse(raw, readOnce);
      return parsed.success ? [[index, parsed.data] as const] : [];
    }),
    tokens: list(entries(top["control"])["tokens"]).flatMap((raw, index) => {
      const parsed = tokenSchema.safeParse(raw, readOnce);
      return parsed.success ? [[index, parsed.data] as const] : [];
    }),
  };
}

function entries(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
