import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { makeRelay } from "../../harness/relay-process.ts";

test("serve on a taken port ends and says how to find the process", async () => {
  const downstream = await openDownstream();
  const relay = await makeRelay();
  const port = Number(new URL(downstream.url).port);
  relay.writeSettings({ server: { port } });
  expect(await relay.startRefused()).toMatchObject({ code: 1 });
  expect(relay.stderr().trim().split("\n").at(-1)).toBe(
    `wamid-relay: port ${port} on 127.0.0.1 is taken: change server.port, or stop the process that "ss -ltnp" names`,
  );

  relay.writeSettings({});
  await relay.start();
  expect((await relay.ask("/healthz")).status).toBe(200);
});
