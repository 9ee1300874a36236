import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { startHttp } from "../url-destination/downstream.ts";
import { ask, signature } from "./raw-client.ts";

const flows = {
  account: "main",
  kind: "automation-request",
  signature: { service: "acme", secrets: [webhookSecret] },
};

test("mode ack: a repeated request is one event for every spelling of its signature, also after a restart", async () => {
  const downstream = await startHttp((_request, response) => response.end("ok"));
  const relay = await startRelayHere({
    settings: {
      sources: { flows: { ...flows, mode: "ack" }, others: { ...flows, mode: "ack" } },
      routes: [routeTo(downstream.url, { match: { events: ["automation.request"] } })],
    },
  });
  const body = Buffer.from(JSON.stringify({ step: "ask", run: randomUUID() }));
  const send = (target: string, value: string) =>
    ask(relay.port, {
      target: `/webhooks/${target}`,
      body,
      lines: ["host: relay.test", `content-length: ${body.length}`, `x-acme-signature: ${value}`],
    });
  const hex = signature(body).replace("sha256=", "");
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => send("flows", signature(body))),
  );
  const words = answers.map(({ json }) => json?.status);
  expect(words.toSorted()).toEqual(["accepted", ...Array.from({ length: 9 }, () => "duplicate")]);
  for (const written of [hex, hex.toUpperCase(), `sha256=${hex}`])
    expect((await send("flows", written)).json).toEqual({ status: "duplicate" });
  await relay.stop();
  await relay.start();
  expect((await send("flows", signature(body))).json).toEqual({ status: "duplicate" });
  // Another source is another automation.
  expect((await send("others", signature(body))).json).toEqual({ status: "accepted" });
  await until("both are forwarded", () => downstream.seen.length === 2);
  const listed = (await relay.ask("/v1/events?source=flows")).body as {
    data: { duplicates: number; conflicts: number }[];
  };
  expect(listed.data).toMatchObject([{ duplicates: 13, conflicts: 0 }]);
});

test("mode proxy: copies get the answer to the first, and the downstream is called once", async () => {
  let calls = 0;
  const held: (() => void)[] = [];
  const downstream = await startHttp((_request, response) => {
    calls += 1;
    held.push(() =>
      response.writeHead(201, { "content-type": "text/plain" }).end(`answer ${calls}`),
    );
  });
  const relay = await startRelayHere({
    settings: {
      sources: {
        flows: { ...flows, mode: "proxy", to: { url: downstream.url, allowPrivate: true } },
      },
      routes: [],
    },
  });
  const body = JSON.stringify({ run: randomUUID() });
  const send = () => ask(relay.port, { target: "/webhooks/flows", body });
  const copies = [send(), send(), send()];
  await until("the first is in flight", () => held.length === 1);
  await until(
    "all came in",
    async () =>
      ((await relay.ask("/v1/events?source=flows")).body as { data: { duplicates: number }[] })
        .data[0]?.duplicates === 2,
  );
  held[0]?.();
  for (const copy of await Promise.all(copies)) {
    expect([copy.status, copy.body.toString()]).toEqual([201, "answer 1"]);
  }
  expect(await send()).toMatchObject({ status: 409, json: { code: "conflict" } });
  expect(calls).toBe(1);
  await relay.stop();
  await relay.start();
  expect(await send()).toMatchObject({ status: 409, json: { code: "conflict" } });
  expect(calls).toBe(1);
});
