import { expect, test } from "vitest";
import { rejectionPresets } from "../../../src/deliver/destinations/url.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { attempt, destinationTo, told } from "./attempt.ts";
import { startHttp } from "./downstream.ts";

/** What a destination with these settings makes of an answer. */
async function outcomeOf(failIfBody: unknown, body: string, status = 200): Promise<string> {
  const downstream = await startHttp((_request, response) => response.writeHead(status).end(body));
  return told(await attempt(destinationTo(downstream.url, { failIfBody })));
}

test.each<[keyof typeof rejectionPresets, string, string]>([
  ["n8n", '{"message":"Webhook call received"}', '{"message":"Workflow was started"}'],
  [
    "odoo",
    '{"jsonrpc": "2.0", "id": null, "error": {"code": 403}}',
    '{"jsonrpc": "2.0", "id": null, "result": "ok"}',
  ],
  [
    "courier",
    '{"message":"Error","data":[{"type":"error","error":"x"}]}',
    '{"message":"Events Handled","data":[]}',
  ],
])(
  "the preset %s tells a dropped webhook from an accepted one",
  async (preset, dropped, accepted) => {
    expect(await outcomeOf({ preset }, dropped)).toBe(`failed rejected: ${dropped}`);
    expect(await outcomeOf({ preset }, accepted)).toBe("200");
    expect(Object.keys(rejectionPresets)).toContain(preset);
  },
);

test("finds own texts beside a preset's, in 2xx answers only, up to 4 KiB", async () => {
  const own = { preset: "n8n", contains: ["dropped", "señal"] };
  expect(await outcomeOf(own, "it was dropped", 202)).toBe("failed rejected: it was dropped");
  expect(await outcomeOf(own, "sin señal")).toBe("failed rejected: sin señal");
  expect(await outcomeOf(own, "Webhook call received")).toBe(
    "failed rejected: Webhook call received",
  );
  expect(await outcomeOf(own, "it was dropped", 410)).toBe("410");
  expect(await outcomeOf(own, `${" ".repeat(4096)}dropped`)).toBe("200");
  expect(await outcomeOf(undefined, "it was dropped")).toBe("200");
});

test("a rejected delivery has its own cause, with the answer, and goes out again", async () => {
  let body = "Webhook call received";
  const n8n = await startHttp((_request, response) => response.end(body));
  const route = routeTo(n8n.url, {
    to: { failIfBody: { preset: "n8n" }, retry: { schedule: ["0s", "1h"] } },
  });
  const relay = await startRelayHere({
    settings: { tracking: { unknown: "forward" }, routes: [route] },
  });
  await postEvent(relay.webhookUrl, createMessages("rejected").event());
  const find = (query: string) =>
    until(query, async () => {
      const { data } = (await relay.ask(`/v1/deliveries?${query}`)).body as {
        data: { event: number; attempts: number }[];
      };
      return data[0] ?? null;
    });
  const { event } = await find("cause=rejected&state=waiting");
  expect((await relay.ask(`/v1/events/${event}?reveal=true`)).body).toMatchObject({
    deliveries: [
      { attemptHistory: [{ status: null, error: "rejected", response: "Webhook call received" }] },
    ],
  });
  body = "Workflow was started";
  await relay.ask("/v1/replay", {
    method: "POST",
    body: { states: ["waiting"], cause: "rejected" },
  });
  expect((await find("state=delivered")).attempts).toBe(2);
});
