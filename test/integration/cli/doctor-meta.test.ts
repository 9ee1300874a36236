import { expect, test } from "vitest";
import type { SourceView } from "../../../src/model/answers/relay.ts";
import {
  metaChange,
  metaNumber,
  metaSource,
  metaStatus,
  postMeta,
  shakeMeta,
} from "../../harness/meta-posts.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { until } from "../../harness/until.ts";
import { startHttp } from "../url-destination/downstream.ts";
import { doctorOn } from "./run-cli.ts";

const otherNumber = "206540352242922";
const source = { ...metaSource, accounts: { [metaNumber]: "main" } };

const judged = async (relay: RelayHere, wanted = "source", ...args: string[]) =>
  (await doctorOn(relay, ...(wanted === "source" ? ["--offline"] : args))).said(wanted);

const sources = async (relay: RelayHere) =>
  ((await relay.ask("/v1/sources")).body as { data: SourceView[] }).data;

test("doctor reports Meta's handshake and the last event of each number, also without a relay", async () => {
  const relay = await startRelayHere({ settings: { sources: { wa: source } } });
  expect(await judged(relay)).toEqual(["warn wa: no handshake was received yet"]);

  await shakeMeta(relay, "wrong");
  await postMeta(
    relay,
    metaChange({ statuses: [metaStatus("wamid.1", "sent")] }),
    metaChange({ statuses: [metaStatus("wamid.2", "sent")] }, otherNumber),
  );
  await until(
    "both numbers are noted",
    async () => (await sources(relay))[0]?.numbers.length === 2,
  );
  const numbers = [
    expect.stringMatching(
      /^ok wa: number or WABA 106540352242922, account main: the last event came \d+ s ago$/,
    ),
    expect.stringMatching(
      /^warn wa: number or WABA 206540352242922 has no account: the last event came \d+ s ago$/,
    ),
  ];
  expect(await judged(relay)).toEqual([
    "ok wa: no handshake was received, but events are",
    ...numbers,
  ]);

  await shakeMeta(relay);
  await until(
    "the handshake is noted",
    async () => (await sources(relay))[0]?.handshake?.doneAt !== null,
  );
  const done = [
    expect.stringMatching(/^ok wa: Meta performed the handshake on 20\d\d-/),
    ...numbers,
  ];
  expect(await judged(relay)).toEqual(done);
  expect(await sources(relay)).toMatchObject([
    { source: "wa", kind: "events", format: "meta", accounts: ["main"] },
  ]);
  await relay.stop();
  expect(await judged(relay)).toEqual(done);
});

/** A stand-in for the Graph API: answers by path, without the query. */
async function openGraph(answers: Readonly<Record<string, object>>) {
  const tokens: Record<string, string | undefined> = {};
  const { port } = await startHttp((request, response) => {
    const [path = ""] = (request.url ?? "").split("?");
    tokens[path] = request.headers.authorization;
    const answer = answers[path];
    response.writeHead(answer === undefined ? 400 : 200, { "content-type": "application/json" });
    response.end(
      JSON.stringify(answer ?? { error: { message: "Unsupported get request", code: 100 } }),
    );
  });
  return { url: `http://127.0.0.1:${port}`, tokens };
}

const app = (id: string, name: string) => ({
  whatsapp_business_api_data: { id, name, link: "https://meta.example" },
});
const number = (id: string, urls: object) => ({ id, webhook_configuration: urls });
const ours = "https://relay.example/webhooks/wa";
const subscribed = {
  object: "whatsapp_business_account",
  callback_url: ours,
  active: true,
  fields: [{ name: "messages" }],
};

test("doctor asks the Graph API who holds the callback", async () => {
  const graph = await openGraph({
    "/1/subscribed_apps": { data: [app("77", "Acme")] },
    "/1/phone_numbers": {
      data: [
        number(metaNumber, { application: ours }),
        number("3", {
          phone_number: "https://chat.example/webhooks/whatsapp/+549?secret=x",
          application: ours,
        }),
        number(otherNumber, {
          whatsapp_business_account: ours,
          application: "https://old.example",
        }),
        number("4", {}),
      ],
    },
    "/2/subscribed_apps": { data: [] },
    "/77/subscriptions": { data: [subscribed] },
  });
  const settings = {
    token: "an access token of Meta",
    businessAccounts: ["1", "2"],
    appId: "77",
    baseUrl: graph.url,
  };
  const accounts = { [metaNumber]: "main", "3": "main", "4": "main" };
  const relay = await startRelayHere({
    settings: { sources: { wa: { ...metaSource, accounts, graph: settings } } },
  });
  expect(await judged(relay, "callback")).toEqual([
    "fail wa: number 3: its webhooks go to another callback, at chat.example, which the number names",
    `fail wa: number ${otherNumber}: no account of the source has it`,
    "fail wa: number 4: it has no callback URL, nor has its business account or the app",
    "fail wa: business account 2: no app is subscribed to it, so Meta sends nothing: POST /2/subscribed_apps",
    "fail wa: the Graph API, asked for /2/phone_numbers, answered 400: Unsupported get request (code 100)",
    "ok wa: business account 1: subscribed apps: Acme (77)",
    `ok wa: number ${metaNumber}: the app names relay.example and this source`,
    `ok wa: number ${otherNumber}: its business account names relay.example and this source`,
    "ok wa: app 77: its callback is this source, at relay.example",
  ]);
  expect(graph.tokens).toMatchObject({
    "/1/subscribed_apps": "Bearer an access token of Meta",
    "/77/subscriptions": "Bearer 77|an app secret of Meta",
  });
  expect(JSON.stringify(relay.log())).not.toContain("an access token of Meta");
  expect(await judged(relay, "callback", "--offline")).toEqual(["skip wa: --offline"]);
});

test.each([
  [
    { ...subscribed, object: "page" },
    "it has no callback for WhatsApp: enter it in the dashboard of the app",
  ],
  [
    { ...subscribed, callback_url: "https://n8n.example/webhook/1" },
    "its callback is another one, at n8n.example",
  ],
  [{ ...subscribed, active: false }, "its subscription is not active"],
  [
    { ...subscribed, fields: [{ name: "flows" }] },
    "its subscription lacks the field messages, which brings messages and statuses",
  ],
])("a callback of the app that is not right is a problem: %o", async (subscription, problem) => {
  const graph = await openGraph({
    "/1/subscribed_apps": { data: [app("77", "Acme"), app("78", "Other")] },
    "/1/phone_numbers": { data: [] },
    "/77/subscriptions": { data: [subscription] },
  });
  const settings = {
    token: "an access token of Meta",
    businessAccounts: ["1"],
    appId: "77",
    baseUrl: graph.url,
  };
  const relay = await startRelayHere({
    settings: { sources: { wa: { ...metaSource, graph: settings } } },
  });
  const check = (name: string) => relay.ask(`/v1/sources/${name}/check`, { method: "POST" });
  expect(await check("wa")).toMatchObject({
    status: 200,
    body: { problems: [`app 77: ${problem}`] },
  });
  expect((await check("wb")).status).toBe(404);
});

test("a Graph API that does not answer is a problem, and a source without it a conflict", async () => {
  const graph = {
    token: "an access token of Meta",
    businessAccounts: ["1"],
    baseUrl: "http://127.0.0.1:9",
  };
  const relay = await startRelayHere({
    settings: { sources: { wa: { ...metaSource, graph }, other: metaSource } },
  });
  expect((await relay.ask("/v1/sources/wa/check", { method: "POST" })).body).toMatchObject({
    problems: [
      expect.stringMatching(/^the Graph API, asked for \/1\/subscribed_apps, does not answer: /),
    ],
    facts: [],
  });
  expect((await relay.ask("/v1/sources/other/check", { method: "POST" })).status).toBe(409);
});
