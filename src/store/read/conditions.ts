import { allOf, type Sql } from "../sql/sql.ts";

/** The condition of each filter of a query. One that is missing does not compile. */
export type Conditions<Filter> = { readonly [Key in keyof Filter]-?: (value: Exclude<Filter[Key], undefined>) => Sql };

/** Those of the filters that are given; undefined when none is. */
export function conditionsOf<Filter extends object>(conditions: Conditions<Filter>, filter: Filter): Sql | undefined {
  const all = Object.entries(conditions) as [keyof Filter, (value: unknown) => Sql][];
  const given = all.flatMap(([name, condition]) => (filter[name] === undefined ? [] : [condition(filter[name])]));
  return given.length === 0 ? undefined : allOf(...given);
}
