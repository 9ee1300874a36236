import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { limitsOf } from "../api/fault.ts";
import { faultsSchema } from "../faults.ts";
import type { AccountRecord } from "../world/records.ts";
import type { ControlParts } from "./parts.ts";
import { read } from "./refusal.ts";
import { accountOf } from "./request.ts";

/** A century: what is asked beyond it is a mistake. */
const longestAdvanceMs = 100 * 366 * 24 * 3_600_000;
const clockOrder = z.strictObject({
  advanceMs: z.number().int().min(0).max(longestAdvanceMs).optional(),
  frozen: z.boolean().optional(),
});
const count = z.number().int().min(0).optional();
const usageChange = z.strictObject({ apiCalls: count, webhookDeliveries: count, automationSteps: count, automationRequests: count });
const usageQuery = z.object({ shown: z.enum(["0", "1"]).default("0") });

/** The sandbox as a whole: its clock, its faults, and what has been used. */
export function addWorldRoutes(app: FastifyInstance, parts: ControlParts): void {
  const { world, clock, faults, limits, posting, forgetBlocks, url } = parts;
  const time = () => ({ now: clock.now(), iso: new Date(clock.now()).toISOString(), frozen: clock.isFrozen });

  app.get("/sandbox", () => ({
    url: url(),
    apiUrl: `${url()}/api/v1`,
    accounts: [...world.accounts.all()].map(({ id, plan }) => ({ name: id, plan })),
    clock: time(),
    faults: faults.get(),
    counts: Object.fromEntries([
      ...Object.entries(world).map(([name, { size }]) => [name, size]),
      ["deliveriesWaiting", posting.waiting()],
    ]) as Record<string, number>,
  }));

  app.get("/sandbox/clock", time);
  app.post("/sandbox/clock", (request) => {
    const { advanceMs, frozen } = read(clockOrder, request.body);
    if (frozen === true) clock.freeze();
    if (frozen === false) clock.thaw();
    if (advanceMs !== undefined) clock.advance(advanceMs);
    return time();
  });

  app.get("/sandbox/faults", () => faults.get());
  app.put("/sandbox/faults", (request) => {
    faults.set(read(faultsSchema, request.body));
    return faults.get();
  });
  app.delete("/sandbox/faults", (_request, reply) => {
    faults.set(faultsSchema.parse({}));
    reply.code(204).send();
  });
  app.delete("/sandbox/blocks", (_request, reply) => {
    forgetBlocks();
    reply.code(204).send();
  });

  const usageOf = (account: AccountRecord, shown: boolean) => {
    const { month, apiCalls, webhookDeliveries, automationSteps, automationRequests } = shown
      ? limits.shownUsage(account)
      : limits.usage(account);
    const most = limitsOf(account.plan);
    return {
      month,
      apiCalls: { used: apiCalls, limit: most.apiCalls },
      webhookDeliveries: { used: webhookDeliveries, limit: most.deliveries },
      automationSteps: { used: automationSteps, limit: most.steps },
      automationRequests: { used: automationRequests, limit: most.automationRequests },
      perMinute: limits.perMinute(account.id),
    };
  };
  app.get("/sandbox/usage", (request) => usageOf(accountOf(world, request), read(usageQuery, request.query).shown === "1"));
  app.put("/sandbox/usage", (request) => {
    const account = accountOf(world, request);
    const change = read(usageChange, request.body);
    // Asked first, so that a month that is over does not take the new numbers with it.
    account.usage = { ...limits.usage(account), ...change } as AccountRecord["usage"];
    world.accounts.put(account);
    return usageOf(account, false);
  });
}
