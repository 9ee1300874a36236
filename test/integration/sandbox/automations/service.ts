import type { AddressInfo } from "node:net";
import { createApiApp } from "../../../../src/sandbox/api/app.ts";
import { addHookRoutes, addRunsRoutes } from "../../../../src/sandbox/api/routes.ts";
import { createRandom } from "../../../../src/sandbox/ids.ts";
import { createLimits } from "../../../../src/sandbox/limits/limits.ts";
import { addMcpRoutes } from "../../../../src/sandbox/mcp/mcp.ts";
import { createScene } from "../../../unit/sandbox/automations/scene.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** The routes of automations and MCP over real HTTP, behind the real gate and limits, beside played messaging. */
export async function startService(options: Parameters<typeof createScene>[0] & { isUnlimited?: boolean } = {}) {
  const { isUnlimited = false, ...sceneOptions } = options;
  const scene = createScene(sceneOptions);
  const { world, clock, messaging, automations, parts } = scene;
  const limits = createLimits({ world, clock, isUnlimited });
  const key = "acme_live_0123456789";
  world.keys.put({ id: parts.ids(), account: "main", createdAt: clock.now(), key, label: "test", revokedAt: null });
  const failures: unknown[] = [];
  const app = createApiApp({
    now: clock.now,
    limits,
    random: createRandom("service"),
    faults: () => [],
    failed: (error) => void failures.push(error),
    routes: (api) => addRunsRoutes(api, { world, automations }),
  });
  addHookRoutes(app, { world, limits, automations });
  addMcpRoutes(app, { world, clock, messaging, isUnlimited });
  await app.listen({ port: 0, host: "127.0.0.1" });
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  return {
    scene,
    limits,
    url,
    failures,
    /** POSTs; `body` as JSON, a text as it is. */
    async post(path: string, body: unknown, bearer?: string): Promise<Answer> {
      const response = await fetch(url + path, {
        method: "POST",
        headers: { "content-type": "application/json", ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }) },
        body: typeof body === "string" ? body : JSON.stringify(body),
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, body: text === "" ? null : JSON.parse(text) };
    },
    key,
    async [Symbol.asyncDispose]() {
      await automations.close();
      await app.close();
    },
  };
}
