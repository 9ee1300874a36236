const prefix = "proxy:";

/** The name under which a proxied exchange stands among the deliveries. No route can be called so. */
export function proxyRoute(source: string): string {
  return `${prefix}${source}`;
}

export function isProxyRoute(route: string): boolean {
  return route.startsWith(prefix);
}
