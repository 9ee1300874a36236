import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { planNames } from "../options.ts";
import type { AccountRecord } from "../world/records.ts";
import type { ControlParts } from "./parts.ts";
import { found, Refusal, read } from "./refusal.ts";
import { accountOf, params } from "./request.ts";

const contactLimit = z.number().int().min(0).nullable();
const newAccount = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "must be a name: letters, digits, . _ -, at most 64"),
  plan: z.enum(planNames).optional(),
  contactLimit: contactLimit.default(null),
});
const accountChange = z.strictObject({
  plan: z.enum(planNames).optional(),
  contactLimit: contactLimit.optional(),
  isConnected: z.boolean().optional(),
});
const newNumber = z.strictObject({ phoneNumberId: z.string().min(1).max(64).optional() });
const numberChange = z.strictObject({ isConnected: z.boolean() });

/** Accounts, their sending numbers and their API keys. */
export function addAccountRoutes(app: FastifyInstance, { world, setup, clock, defaultPlan }: ControlParts): void {
  app.get("/sandbox/accounts", () => ({ data: [...world.accounts.all()].map(shown) }));
  app.post("/sandbox/accounts", (request, reply) => {
    const { name, plan = defaultPlan, contactLimit: limit } = read(newAccount, request.body);
    if (world.accounts.get(name) !== undefined) throw new Refusal(409, `there is an account ${name} already`);
    const account = setup.addAccount(name, plan, limit);
    const { key } = setup.giveKey(account, "first");
    reply.code(201);
    return { ...shown(account), key, phoneNumberId: account.numbers[0]?.phoneNumberId };
  });
  app.patch("/sandbox/accounts/:name", (request) => {
    const { name = "" } = params(request);
    const account = found(world.accounts.get(name), `account ${name}`);
    const change = read(accountChange, request.body);
    if (change.plan !== undefined) account.plan = change.plan;
    if (change.contactLimit !== undefined) account.contactLimit = change.contactLimit;
    if (change.isConnected !== undefined) account.isConnected = change.isConnected;
    world.accounts.put(account);
    return shown(account);
  });

  app.get("/sandbox/numbers", (request) => ({ data: accountOf(world, request).numbers }));
  app.post("/sandbox/numbers", (request, reply) => {
    const account = accountOf(world, request);
    const { phoneNumberId } = read(newNumber, request.body);
    if (account.numbers.some((number) => number.phoneNumberId === phoneNumberId)) {
      throw new Refusal(409, `there is a number ${phoneNumberId} already`);
    }
    reply.code(201);
    return setup.addNumber(account, phoneNumberId);
  });
  app.patch("/sandbox/numbers/:phoneNumberId", (request) => {
    const account = accountOf(world, request);
    const { phoneNumberId } = params(request);
    const number = found(
      account.numbers.find((other) => other.phoneNumberId === phoneNumberId),
      `number ${phoneNumberId}`,
    );
    number.isConnected = read(numberChange, request.body).isConnected;
    world.accounts.put(account);
    return number;
  });

  app.get("/sandbox/keys", (request) => ({
    data: world.keys
      .list(accountOf(world, request).id)
      .map(({ id, key, label, revokedAt }) => ({ id, key, label, isRevoked: revokedAt !== null })),
  }));
  app.post("/sandbox/keys", (request, reply) => {
    const { label = "" } = read(z.strictObject({ label: z.string().max(200).optional() }), request.body);
    const record = setup.addKey(accountOf(world, request), label);
    reply.code(201);
    return { id: record.id, key: record.key, label };
  });
  app.delete("/sandbox/keys/:id", (request, reply) => {
    const { id = "" } = params(request);
    const record = found(world.keys.of(accountOf(world, request).id, id), `key ${id}`);
    record.revokedAt ??= clock.now();
    world.keys.put(record);
    reply.code(204).send();
  });
}

function shown({ id, plan, contactLimit: limit, isConnected, numbers }: AccountRecord) {
  return { name: id, plan, contactLimit: limit, isConnected, numbers };
}
