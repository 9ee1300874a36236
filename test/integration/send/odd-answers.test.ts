import { expect, test } from "vitest";
import { jsonAnswer, startScripted } from "../service/client/scripted-service.ts";
import { hello, openRelay } from "./open-relay.ts";

const openWith = async (...answers: Buffer[]) => {
  const service = await startScripted((_request, number) => answers[number - 1]);
  return { service, relay: await openRelay({ account: { baseUrl: service.baseUrl } }) };
};

test("passes the phone of a run unchanged, and rejects a `to` without + without a call", async () => {
  const { service, relay } = await openWith(jsonAnswer(201, '{"runId":"r"}'));
  expect(await relay.run("a", { reference: "order-1", phone: "11 5555-0100" })).toMatchObject({
    status: 201,
    body: { runId: "r" },
  });
  expect(JSON.parse(service.seen[0]?.body ?? "")).toEqual({ phone: "11 5555-0100" });
  expect(await relay.send({ ...hello, to: " +5491155550100" }, "k")).toMatchObject({
    status: 400,
    body: { code: "bad_request" },
  });
  expect(service.seen).toHaveLength(1);
});
