import { expect, test } from "vitest";
import type { RelayInstance } from "../../../src/model/answers.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { makeRelay } from "../../harness/relay-process.ts";

test("serve on a taken port ends and names the other relay, or how to find the process", async () => {
  const other = await startRelayHere();
  const downstream = await openDownstream();
  const relay = await makeRelay();
  const { instance, version } = (await other.ask("/v1/instance")).body as RelayInstance;

  relay.writeSettings({ server: { port: other.port } });
  expect(await relay.startRefused()).toMatchObject({ code: 1 });
  expect(relay.stderr().trim()).toMatch(
    new RegExp(
      `wamid-relay: port ${other.port} on 127\\.0\\.0\\.1 is taken by another wamid-relay, instance ${instance}, version ${version}; change server\\.port, or stop that process$`,
    ),
  );

  const port = Number(new URL(downstream.url).port);
  relay.writeSettings({ server: { port } });
  expect(await relay.startRefused()).toMatchObject({ code: 1 });
  expect(relay.stderr().trim().split("\n").at(-1)).toBe(
    `wamid-relay: port ${port} on 127.0.0.1 is taken by another process, which "ss -ltnp" names; change server.port, or stop that process`,
  );

  relay.writeSettings({});
  await relay.start();
  expect((await relay.ask("/healthz")).status).toBe(200);
});
