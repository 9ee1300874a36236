import { expect, test } from "vitest";
import { startSandbox } from "../../../../src/sandbox/start-sandbox.ts";

test("the oldest messages are forgotten, but none to which something is still to happen; totals of campaigns stay", async () => {
  await using sandbox = await startSandbox({ keepMessages: 10, plan: "enterprise" });
  sandbox.clock.freeze();
  const phones = Array.from(
    { length: 30 },
    (_, n) => `+549110000${String(n).padStart(2, "0")}0001`,
  );
  await sandbox.control("POST", "/campaigns", { name: "Noviembre", phones, perSecond: 1_000 });
  sandbox.clock.advance(150);
  // None has come to its end.
  expect(sandbox.messages()).toHaveLength(30);
  const [first] = sandbox.messages();
  expect((await sandbox.call("GET", `/messages/${first?.id}`)).status).toBe(200);

  sandbox.clock.advance(60_000);
  const template = { id: sandbox.templates()[0]?.id };
  const { body: sent } = await sandbox.call("POST", "/messages", {
    to: "+5491100009999",
    template,
  });
  expect(sandbox.messages()).toHaveLength(10);
  expect(sent).toMatchObject({ id: sandbox.messages().at(-1)?.id });
  expect((await sandbox.call("GET", `/messages/${first?.id}`)).status).toBe(404);
  expect((await sandbox.call("GET", "/campaigns")).body).toMatchObject({
    data: [{ sent: 30, deliveries: 30 }],
  });
});
