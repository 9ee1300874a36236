import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { createPhones, createRandom, createWamids } from "../ids.ts";
import { mostBytes, mostUpdates, requestBody } from "../meta/request-body.ts";
import { type Update, userIdOf, waIdOf } from "../meta/update.ts";
import { type World, wabaIdOf } from "../world/world.ts";
import { addAccountRoutes, addWorldRoutes } from "./account-routes.ts";
import { addFlowRoutes, addMessageRoutes, addPeopleRoutes } from "./message-routes.ts";
import { type ControlParts, createRoutes, type Routes } from "./routes.ts";

/** Every endpoint of docs/contributing/sandbox.md, "Control API". No key: every client that reaches the address may call. */
export function addControlRoutes(app: FastifyInstance, parts: ControlParts): void {
  void app.register(async (scope) => {
    const routes = createRoutes(scope, parts.world);
    const stopping = Promise.withResolvers<void>();
    scope.addHook("preClose", async () => stopping.resolve());
    addWorldRoutes(routes, parts);
    addAccountRoutes(routes, parts);
    addPeopleRoutes(routes, parts);
    addFlowRoutes(routes, parts);
    addMessageRoutes(routes, parts, stopping.promise);
    if (parts.callbacks !== null) addMetaRoutes(routes, parts);
  });
  void app.register(
    async (scope) => {
      scope.setNotFoundHandler(({ method, url }, reply) => {
        const error = `there is no ${method} ${url.split("?")[0]}; docs/contributing/sandbox.md lists what there is`;
        return reply.code(404).send({ error });
      });
    },
    { prefix: "/sandbox" },
  );
}

const newRequest = z.strictObject({
  updates: z.number().int().min(1).max(mostUpdates).default(mostUpdates),
  bytes: z.number().int().min(0).max(mostBytes).default(0),
  seed: z.string().default("requests"),
});

/** Requests of any size. The same order gives the same updates. */
function addMetaRoutes({ create }: Routes, { world, events }: ControlParts): void {
  create("/meta/requests", ({ body: given }) => {
    const { updates: count, bytes, seed } = given(newRequest);
    const updates = madeUp(world, count, seed, 0);
    const missing = Math.max(0, bytes - requestBody(updates).length);
    const padded = missing === 0 ? updates : madeUp(world, count, seed, Math.floor(missing / Math.ceil(count / 2)));
    const record = events.meta?.request(padded);
    return { id: record?.id, updates: count, bytes: record?.body.length };
  });
}

function madeUp(world: World, count: number, seed: string, padding: number): Update[] {
  const random = createRandom(seed);
  const phone = createPhones(random.fork("phones"));
  const wamid = createWamids(random.fork("wamids"));
  const numbers = [...world.accounts.all()].flatMap(({ id, numbers: own }) => own.map((number) => ({ number, wabaId: wabaIdOf(id) })));
  const timestamp = String(Math.floor(Date.UTC(2026, 0, 1) / 1000));
  return Array.from({ length: count }, (_, place) => {
    const own = phone();
    const id = wamid(own);
    const user = userIdOf(`+${own}`);
    const common = { field: "messages", ...(numbers[place % numbers.length] as (typeof numbers)[number]), wamid: null };
    const contact = { profile: { name: `Zoë ${place}` }, wa_id: waIdOf(own), user_id: user };
    if (place % 2 === 0) {
      const text = { body: `Größe ${place} / €${"x".repeat(padding)}` };
      return { ...common, list: "messages", contact, item: { from: own, from_user_id: user, id, timestamp, type: "text", text } };
    }
    const status = random.pick(["sent", "delivered", "read"]);
    return { ...common, list: "statuses", contact, item: { id, status, timestamp, recipient_id: own, recipient_user_id: user } };
  });
}
