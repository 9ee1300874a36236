/** Where the API is: the origin to connect to, and the path of its root, `{base_url}/api/v1`, without a slash at its end. */
export interface ServiceUrl {
  readonly origin: string;
  readonly root: string;
}

/**
 * Reads a base URL, with or without a path and a slash at its end. Throws a TypeError, which does not quote
 * it, when it is no http(s) URL or holds what a base URL cannot: a user, a query, a fragment.
 */
export function readServiceUrl(baseUrl: string): ServiceUrl {
  const url = URL.parse(baseUrl);
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) throw new TypeError("baseUrl is not an http or https URL");
  if (url.username !== "" || url.password !== "") throw new TypeError("baseUrl holds a user or password");
  if (url.search !== "" || url.hash !== "") throw new TypeError("baseUrl holds a query or a fragment");
  return { origin: url.origin, root: `${url.pathname.replace(/\/+$/, "")}/api/v1` };
}

/** An id as one part of a path. Throws a TypeError for what could not be one, and would ask for another path. */
export function pathPart(id: string): string {
  if (id === "" || id === "." || id === "..") throw new TypeError("an id is empty or made of dots");
  return encodeURIComponent(id);
}

/** A query, or nothing when no parameter is given. */
export function queryOf(parameters: Readonly<Record<string, string | number | null | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  return query.size === 0 ? "" : `?${query}`;
}
