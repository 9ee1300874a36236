// messaging-service-api.md, "Endpoints": GET /templates.
import { expect, test } from "vitest";
import { type Account, second, serviceOfFile } from "./harness.ts";

const service = await serviceOfFile();

async function listed(account: Account) {
  return (await account.api<{ data: { id: string; name: string }[] }>("GET", "/templates")).body
    .data;
}

test("GET /templates: not paginated: all approved templates, newest first", async () => {
  const account = await service.account();
  const ids: string[] = [];
  for (let count = 0; count < 120; count++) {
    if (count % 40 === 0) await service.advance(second);
    ids.push(await account.template({ name: `Aviso ${count}` }));
  }
  expect((await listed(account)).map(({ id }) => id)).toStrictEqual(ids.toReversed());
});

test("GET /templates: only templates approved by the provider are listed", async () => {
  const account = await service.account();
  const approved = await account.template({ name: "Aprobada" });
  const pending = await account.template({ name: "Pendiente", status: "pending" });
  await account.template({ name: "Rechazada", status: "rejected" });
  expect((await listed(account)).map(({ id }) => id)).toStrictEqual([approved]);
  await account.box("PATCH", `/templates/${pending}`, { status: "approved" });
  expect((await listed(account)).map(({ id }) => id)).toStrictEqual([pending, approved]);
  await account.box("PATCH", `/templates/${approved}`, { status: "rejected" });
  expect((await listed(account)).map(({ id }) => id)).toStrictEqual([pending]);
});

test("GET /templates: the answer is exactly {data: [...]}", async () => {
  const account = await service.account();
  const empty = await account.api("GET", "/templates");
  expect(empty.status).toBe(200);
  expect(empty.body).toStrictEqual({ data: [] });
  await account.template();
  expect((await account.api("GET", "/templates")).body).toStrictEqual({
    data: [expect.any(Object)],
  });
});
