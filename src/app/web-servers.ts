import { keptAfterReload } from "../config/schema.ts";
import { apiHook } from "./hooks.ts";
import type { Observed } from "./observe.ts";
import { createWebServer, type ListenAddress, type WebhookHandler, type WebServer } from "./web-server.ts";

export interface WebServers {
  /** The public port. */
  readonly web: WebServer;
  /** The port of the control API: `web` without `server.control`. */
  readonly controlWeb: WebServer;
  readonly all: ReadonlySet<WebServer>;
}

/** `webhooks` is null in a process that takes none. */
export function createWebServers({ live, log, metrics }: Observed, webhooks: WebhookHandler | null): WebServers {
  const { server } = live.initial;

  /** `missing`: the error text for an unknown page. */
  function create(address: ListenAddress, handler: WebhookHandler | null, missing: string | undefined): WebServer {
    const web = createWebServer(
      { ...address, requestTimeout: server.requestTimeout },
      {
        webhooks: handler ?? (() => false),
        failed: (error, requestId) => log.error({ err: error, requestId }, "a request failed"),
        missing:
          webhooks === null
            ? "no such page: this process has the role work, and processes with the role receive serve webhooks and /v1"
            : missing,
      },
    );
    web.http.addHook("onResponse", apiHook(metrics));
    return web;
  }

  const { control } = server;
  const web = create(
    server,
    webhooks,
    control === undefined ? undefined : "no such page: the control API and the metrics have their own port (server.control)",
  );
  const controlWeb =
    control === undefined ? web : create(control, null, "no such page: this is server.control; webhooks are at server.port");
  live.follow((next) => {
    const { server: renewed } = keptAfterReload(live.initial, next);
    web.renewTls(renewed.tls);
    if (web !== controlWeb) controlWeb.renewTls(renewed.control?.tls);
  });
  return { web, controlWeb, all: new Set([controlWeb, web]) };
}
