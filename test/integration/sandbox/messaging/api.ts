import type { AddressInfo } from "node:net";
import { z } from "zod";
import { createApiApp } from "../../../../src/sandbox/api/app.ts";
import {
  addCampaignsRoutes,
  addContactsRoutes,
  addMeRoutes,
  addMessagesRoutes,
  addTemplatesRoutes,
} from "../../../../src/sandbox/api/routes.ts";
import { createCampaigns } from "../../../../src/sandbox/campaigns/campaigns.ts";
import { createLimits } from "../../../../src/sandbox/limits/limits.ts";
import { addAccount, createService } from "../../../unit/sandbox/messaging/service.ts";

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

const made = z.looseObject({ id: z.string() });
const validationError = z.object({ error: z.object({ message: z.string() }) });
const problems = z.array(z.object({ path: z.array(z.string()), message: z.string() }));

/** The id of what was made; fails where nothing was. */
export const idOf = ({ body }: Answer) => made.parse(body).id;

/** The API on a real socket, behind its gate, without caps; accounts `main` (key `k-main`) and `other` (`k-other`). */
export async function startApi() {
  const service = createService();
  const { world, clock, messaging } = service;
  addAccount(world, "other");
  for (const account of ["main", "other"]) {
    world.keys.put({ id: service.ids(), account, createdAt: clock.now(), key: `k-${account}`, label: "", revokedAt: null });
  }
  const campaigns = createCampaigns(service);
  const failures: unknown[] = [];
  const app = createApiApp({
    now: clock.now,
    limits: createLimits({ world, clock, isUnlimited: true }),
    random: service.random,
    faults: () => [],
    failed: (error) => failures.push(error),
    routes(api) {
      addMessagesRoutes(api, { world, messaging });
      addTemplatesRoutes(api, { world });
      addContactsRoutes(api, { world, messaging });
      addCampaignsRoutes(api, { world });
      addMeRoutes(api, { world });
    },
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const call = async (method: string, path: string, body?: unknown, key = "k-main"): Promise<Answer> => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: await answer.json() };
  };
  return {
    ...service,
    campaigns,
    failures,
    get: (path: string, key?: string) => call("GET", path, undefined, key),
    post: (path: string, body: unknown, key?: string) => call("POST", path, body, key),
    [Symbol.asyncDispose]: () => app.close(),
  };
}

/** The problems of a validation error, as `path: message`. */
export function problemsOf({ status, body }: Answer): string[] {
  const { success, data } = validationError.safeParse(body);
  if (status !== 400 || !success) throw new Error(`no validation error: ${status} ${JSON.stringify(body)}`);
  return problems.parse(JSON.parse(data.error.message)).map(({ path, message }) => `${path.join(".")}: ${message}`);
}
