// messaging-service-api.md, "Endpoints": GET /campaigns and GET /me.
import { expect, test } from "vitest";
import { minute, serviceOfFile } from "./harness.ts";

const service = await serviceOfFile();

interface Campaign {
  readonly name: string;
  readonly deliveries: number;
  readonly reads: number;
  readonly replies: number;
}

test("GET /campaigns: not paginated: the latest 100 campaigns", async () => {
  const account = await service.account();
  const templateId = await account.template();
  const phones = [service.phone("0002")];
  for (let count = 1; count <= 103; count++) {
    const made = await account.box("POST", "/campaigns", {
      name: `Campaña ${count}`,
      templateId,
      phones,
    });
    expect(made.status, made.text).toBe(201);
  }
  const answer = await account.api<{ data: Campaign[] }>("GET", "/campaigns");
  expect(answer.status).toBe(200);
  const names = answer.body.data.map(({ name }) => name);
  expect(names).toHaveLength(100);
  expect(new Set(names)).toStrictEqual(
    new Set(Array.from({ length: 100 }, (_, place) => `Campaña ${place + 4}`)),
  );
});

test("GET /campaigns: each has its own totals", async () => {
  const account = await service.account();
  const templateId = await account.template();
  const start = (name: string, ending: string, count: number) =>
    account.box("POST", "/campaigns", {
      name,
      templateId,
      phones: Array.from({ length: count }, () => service.phone(ending)),
    });
  await start("Leída", "0007", 3);
  await start("Entregada", "0001", 2);
  await start("Fallida", "0000", 4);
  await service.advance(5 * minute);
  const { data } = (await account.api<{ data: Campaign[] }>("GET", "/campaigns")).body;
  const totals = Object.fromEntries(
    data.map(({ name, deliveries, reads, replies }) => [name, [deliveries, reads, replies]]),
  );
  expect(totals).toStrictEqual({ Leída: [3, 3, 0], Entregada: [2, 0, 0], Fallida: [0, 0, 0] });
});

test("GET /me: returns the account's data, of the account that the key belongs to", async () => {
  const [one, other] = [await service.account(), await service.account()];
  const me = await one.api("GET", "/me");
  expect(me.status).toBe(200);
  expect(me.text).toContain(one.name);
  expect((await other.api("GET", "/me")).text).toContain(other.name);
});
