import { expect, test } from "vitest";
import { allEndpoints, type NamedEndpoint } from "../../../src/model/endpoints/table.ts";
import { startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { relayToken, routeTo, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { freshEvent } from "./alive.ts";

const limitedToken = "token-of-the-account-main";
const scopes = ["read", "track", "send", "replay", "listen", "pii"];
const signature = { service: "acme", secrets: [webhookSecret] };
const marker = "marker";
const wamid = `wamid.${marker}`;
const reference = `${marker}-order`;
/** Takes events of the other account only. */
const route = `${marker}-route`;

interface Planted {
  readonly relay: RelayHere;
  /** Of a dead delivery of the other account. */
  readonly delivery: string;
  readonly event: { readonly id: string; readonly seq: number };
  readonly quarantined: number;
}

/**
 * A relay whose account `other` has a message, a run, events, a dead delivery and a quarantined
 * body, each with the marker.
 */
async function plant(service: Awaited<ReturnType<typeof startSandbox>>): Promise<Planted> {
  const downstream = await openDownstream();
  downstream.fail({ status: 500 });
  const account = { baseUrl: service.url, apiKey: service.key };
  const relay = await startRelayHere({
    settings: {
      control: {
        badTokenLimit: 1_000,
        tokens: [
          { name: "harness", token: relayToken, scopes },
          { name: "limited", token: limitedToken, scopes, accounts: ["main"] },
        ],
      },
      accounts: { main: account, other: account },
      sources: { main: { account: "main", signature }, other: { account: "other", signature } },
      routes: [
        routeTo(downstream.url, {
          name: route,
          match: { events: ["*"], accounts: ["other"] },
          to: { retry: { schedule: ["0s"], jitter: 0 } },
        }),
        routeTo(downstream.url, { match: { events: ["*"], accounts: ["main"] } }),
      ],
    },
  });
  const registered = await relay.ask("/v1/messages/track", {
    method: "POST",
    body: { account: "other", wamid, reference },
  });
  expect(registered.status).toBe(200);
  const automation = service.automations().find(({ trigger }) => trigger === "manual")?.id;
  const run = { account: "other", reference: `${reference}-2`, phone: "+5491155550100" };
  expect(
    (await relay.ask(`/v1/automations/${automation}/runs`, { method: "POST", body: run })).status,
  ).toBe(201);
  const other = `${relay.url}/webhooks/other`;
  const event = freshEvent({ wamid, status: "failed", errorCode: marker }, "message.status");
  expect(await postEvent(other, event)).toMatchObject({ status: 200 });
  expect(
    await postEvent(
      relay.webhookUrl,
      freshEvent({ wamid: "wamid.mine", status: "failed" }, "message.status"),
    ),
  ).toMatchObject({
    status: 200,
  });
  expect(
    await postEvent(other, { ...freshEvent({ marker }), id: "" as typeof event.id }),
  ).toMatchObject({ word: "quarantined" });
  const bodyOf = async (path: string) =>
    (await relay.ask(path)).body as { data: { id: string; seq: number }[] };
  await until(
    "the delivery is dead",
    async () =>
      (await bodyOf(`/v1/deliveries?state=dead&route=${route}&errorCode=${marker}`)).data.length ===
      1,
  );
  const [delivery] = (await bodyOf(`/v1/deliveries?state=dead&route=${route}&errorCode=${marker}`))
    .data;
  const [stored] = (await bodyOf(`/v1/events?wamid=${wamid}`)).data;
  const [quarantined] = (await bodyOf("/v1/events?disposition=quarantined")).data;
  if (delivery === undefined || stored === undefined || quarantined === undefined)
    throw new Error("nothing was planted");
  return { relay, delivery: delivery.id, event: stored, quarantined: quarantined.seq };
}

interface Asked {
  readonly path: string;
  readonly body?: unknown;
}

/** Requests that an unlimited token would get the other account's data for, or act on it with. */
function requestsOf(
  { name, path, method }: NamedEndpoint,
  { delivery, event, quarantined }: Planted,
): Asked[] {
  const names = [event.id, String(event.seq), wamid, reference, delivery];
  const bodies: Readonly<Record<string, unknown[]>> = {
    sendMessage: [{ account: "other", to: "+5491155550100", text: marker }],
    startRun: [{ account: "other", reference, phone: "+5491155550100" }],
    trackMessages: [
      { account: "other", wamid: `${wamid}2` },
      [{ account: "other", wamid: `${wamid}3`, reference }],
    ],
    replay: [
      { dryRun: true },
      { dryRun: true, disposition: "quarantined" },
      { disposition: "quarantined", event: quarantined, dryRun: true },
    ],
    reconcile: [{ dryRun: true }, { account: "other", dryRun: true }],
    moveCursor: [{ seq: 1 }],
    startSession: [{ code: "x" }],
  };
  if (method === "POST") {
    const values = name === "resumeAccount" ? ["other"] : name === "resumeRoute" ? [route] : names;
    const paths = path.includes(":")
      ? values.map((value) => path.replace(/:\w+/, encodeURIComponent(value)))
      : [path];
    return paths.flatMap((each) =>
      (bodies[name] ?? [undefined]).map((body) => ({ path: each, body })),
    );
  }
  const asked = path.includes(":")
    ? names.flatMap((value) =>
        ["", "?account=other"].map(
          (query) => path.replace(/:\w+/, encodeURIComponent(value)) + query,
        ),
      )
    : [
        path,
        ...[
          "account=other",
          `q=${reference}`,
          `q=${wamid}`,
          `q=${delivery}`,
          `subject=${wamid}`,
          `wamid=${wamid}`,
          `reference=${reference}`,
          `errorCode=${marker}`,
          "name=events&by=source",
        ].map((query) => `${path}?${query}`),
      ];
  return asked.map((each) => ({ path: each }));
}

/** The text of an answer; of a stream, what comes until it pauses. */
async function textOf(
  relay: RelayHere,
  method: string,
  { path, body }: Asked,
  token: string,
): Promise<{ status: number; text: string }> {
  const json = body === undefined ? {} : { "content-type": "application/json" };
  const answer = await fetch(relay.url + path, {
    method,
    headers: { authorization: `Bearer ${token}`, "last-event-id": "0", ...json },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!answer.headers.get("content-type")?.startsWith("text/event-stream"))
    return { status: answer.status, text: await answer.text() };
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of answer.body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    // Each stream reports how far it has read, when it has nothing more.
    if (/still here|"wamid\.mine"|event: (overview|at|bye)/.test(text)) break;
  }
  return { status: answer.status, text };
}

/** Streams from the first event on. */
const streams: Readonly<Record<string, string>> = {
  listen: "/v1/listen?after=0",
  live: "/v1/live?tail=true",
};
/** What is of the other account in an answer. */
const tracesIn = (text: string, { delivery, event }: Planted) =>
  [marker, '"other"', "sources.other", delivery, event.id].filter((trace) => text.includes(trace));

test("a token limited to an account finds nothing of another one at any endpoint, and changes nothing there", async () => {
  await using service = await startSandbox();
  const planted = await plant(service);
  const { relay } = planted;
  const before = (await relay.ask(`/v1/explain/${planted.event.seq}`)).body;
  const seen = new Map<string, string[]>();
  for (const endpoint of allEndpoints) {
    const requests =
      endpoint.name in streams
        ? [{ path: streams[endpoint.name] as string }]
        : requestsOf(endpoint, planted);
    for (const request of requests) {
      const { status, text } = await textOf(relay, endpoint.method, request, limitedToken);
      if (endpoint.accounts === "whole")
        expect([endpoint.name, status]).toEqual([endpoint.name, 403]);
      // An error may repeat what the request names. The description of the API and the probes are
      // not of an account.
      if (endpoint.accounts !== "narrowed") continue;
      expect([request.path, status, status < 400 ? tracesIn(text, planted) : []]).toEqual([
        request.path,
        status,
        [],
      ]);
      const isHarmless =
        endpoint.method === "GET" ||
        (request.body as { dryRun?: boolean } | undefined)?.dryRun === true;
      const whole = isHarmless
        ? await textOf(relay, endpoint.method, request, relayToken)
        : { status, text: "" };
      const traces = whole.status < 400 ? tracesIn(whole.text, planted) : [];
      if (isHarmless) seen.set(endpoint.name, [...(seen.get(endpoint.name) ?? []), ...traces]);
    }
  }
  // A token of the whole relay finds it with the same requests.
  expect(seen.size).toBeGreaterThan(12);
  expect([...seen].filter(([, traces]) => traces.length === 0)).toEqual([]);
  expect((await relay.ask(`/v1/explain/${planted.event.seq}`)).body).toEqual(before);
  const { status, text } = await textOf(
    relay,
    "GET",
    { path: "/v1/events?q=wamid.mine" },
    limitedToken,
  );
  expect([status, text.includes("wamid.mine")]).toEqual([200, true]);
  const tracked = await textOf(
    relay,
    "POST",
    { path: "/v1/messages/track", body: { wamid: "wamid.mine" } },
    limitedToken,
  );
  expect(tracked).toEqual({ status: 200, text: '{"created":1,"known":0}' });
});

test("a token limited to an account finds its message among many of others with the same reference", async () => {
  await using service = await startSandbox();
  const { relay } = await plant(service);
  const others = Array.from({ length: 101 }, (_, n) => ({
    account: "other",
    wamid: `wamid.other-${n}`,
    reference: "shared",
  }));
  const all = [{ account: "main", wamid: "wamid.own", reference: "shared" }, ...others];
  expect(
    (await textOf(relay, "POST", { path: "/v1/messages/track", body: all }, relayToken)).status,
  ).toBe(200);
  for (const path of [
    "/v1/messages/shared",
    "/v1/messages?q=shared",
    "/v1/search?q=shared",
    "/v1/explain/shared",
  ]) {
    const { status, text } = await textOf(relay, "GET", { path }, limitedToken);
    expect([path, status, text.includes("wamid.own"), text.includes("wamid.other")]).toEqual([
      path,
      200,
      true,
      false,
    ]);
  }
});
