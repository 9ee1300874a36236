import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { auditOf } from "../../harness/ask-relay.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { engines, storageOf } from "../../harness/engines.ts";
import {
  appSecret,
  metaAccount,
  metaChange,
  metaNumber,
  metaStatus,
  metaToken,
} from "../../harness/meta-posts.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

const token = metaToken;
const otherNumber = "206540352242922";

const source = {
  format: "meta",
  verifyTokens: [token, "the next token"],
  signature: { secrets: [appSecret, "the next secret"] },
};

const requestOf = (...changes: object[]) => ({
  object: "whatsapp_business_account",
  entry: [{ id: metaAccount, changes }],
});
async function post(
  relay: RelayHere,
  body: unknown,
  { path = "wa", headers = {} as Record<string, string>, key = appSecret } = {},
) {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  const signature = `sha256=${createHmac("sha256", key).update(bytes).digest("hex")}`;
  const answer = await fetch(`${relay.url}/webhooks/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-hub-signature-256": signature, ...headers },
    body: bytes,
  });
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

const listed = async (relay: RelayHere, query = "") => {
  const { body } = await relay.ask(`/v1/events?limit=100&reveal=true${query}`);
  return (body as { data: Record<string, unknown>[] }).data;
};

describe.each(engines)("webhooks of Meta on %s", (engine) => {
  test("a batch becomes events, each once, and a bad item is quarantined alone", async () => {
    const storage = await storageOf(engine);
    const downstream = await openDownstream();
    const routes = [
      routeTo(`${downstream.url}/original`, { name: "original" }),
      { ...routeTo(`${downstream.url}/standard`, { name: "standard" }), payload: "standard" },
      {
        ...routeTo(`${downstream.url}/enriched`, {
          name: "enriched",
          match: { events: ["message.status"] },
        }),
        payload: "enriched",
      },
    ];
    const relay = await startRelayHere({
      settings: { ...storage, sources: { wa: source }, routes },
    });
    const statuses = [
      metaStatus("wamid.1", "read"),
      metaStatus("wamid.1", "delivered"),
      7,
      metaStatus("wamid.2", "sent", { biz_opaque_callback_data: "ü" }),
    ];
    const messages = [
      {
        from: "16505551234",
        id: "wamid.3",
        timestamp: "1750263774",
        type: "text",
        text: { body: "grüße 🎉" },
      },
    ];
    const batch = requestOf(
      metaChange({ contacts: [{ wa_id: "16505551234" }, { wa_id: "9" }], statuses, messages }),
      {
        ...metaChange({ event: "APPROVED" }),
        field: "message_template_status_update",
      },
    );

    expect(await post(relay, batch)).toEqual({
      status: 200,
      body: { status: "accepted", events: 5, duplicates: 0, quarantined: 1, unassigned: 0 },
    });
    expect(await post(relay, batch)).toEqual({
      status: 200,
      body: { status: "accepted", events: 0, duplicates: 6, quarantined: 0, unassigned: 0 },
    });
    // The same status in another request.
    expect(
      (await post(relay, requestOf(metaChange({ statuses: [statuses[0]] })))).body,
    ).toMatchObject({ events: 0, duplicates: 1 });

    const events = await listed(relay);
    expect(events.map(({ event, disposition }) => `${event} ${disposition}`).toSorted()).toEqual([
      "message.received routed",
      "message.status routed",
      "message.status routed",
      "message.status routed",
      "null quarantined",
      "template.status routed",
    ]);
    await until("all is delivered", () => downstream.arrivals.length >= 13);
    const at = (path: string) =>
      downstream.arrivals
        .filter((arrival) => arrival.path === path)
        .map(({ body }) => JSON.parse(String(body)));
    expect(
      at("/original")
        .map(({ entry }) => entry[0].changes[0].value.statuses?.[0].status ?? null)
        .toSorted(),
    ).toEqual(["delivered", "read", "sent", null, null].toSorted());
    for (const { entry } of at("/original"))
      expect(entry[0].changes[0].value.contacts?.length ?? 1).toBe(1);
    const standard = at("/standard").find(({ data }) => data.wamid === "wamid.2");
    expect(standard).toMatchObject({
      event: "message.status",
      createdAt: "2025-06-18T16:22:53.000Z",
      data: { status: "sent", reference: "ü", raw: statuses[3] },
    });
    const enriched = at("/enriched").find(({ data }) => data.wamid === "wamid.2");
    expect(enriched).toMatchObject({
      ...standard,
      relay: { route: "enriched", source: "wa", account: "main" },
    });
    // What the relay writes is ASCII.
    for (const { path, body } of downstream.arrivals)
      if (path !== "/original") expect(String(body)).toMatch(/^[\x20-\x7e]*$/);
    const audit = await auditOf(relay);
    expect(audit).toMatchObject({ balanced: true, offenders: [] });
  });

  test("numbers of several customers go to their accounts, and unknown ones are kept until they are mapped", async () => {
    const storage = await storageOf(engine);
    const downstream = await openDownstream();
    const settings = (accounts: object) => ({
      ...storage,
      accounts: { one: {}, two: {} },
      sources: { wa: { ...source, accounts, registerBy: "callback-data" } },
      routes: [routeTo(downstream.url)],
    });
    const relay = await startRelayHere({ settings: settings({ [metaNumber]: "one" }) });
    const batch = requestOf(
      metaChange({ statuses: [metaStatus("wamid.1", "sent")] }),
      metaChange(
        { statuses: [metaStatus("wamid.2", "sent", { biz_opaque_callback_data: "order-7" })] },
        otherNumber,
      ),
    );
    expect((await post(relay, batch)).body).toMatchObject({ events: 1, unassigned: 1 });
    expect((await post(relay, batch)).body).toMatchObject({
      events: 0,
      duplicates: 2,
      unassigned: 0,
    });
    const kept = async () =>
      (await listed(relay))
        .map(({ account, disposition }) => `${account} ${disposition}`)
        .toSorted();
    expect(await kept()).toEqual([" unassigned", "one routed"]);

    const release = () =>
      relay.ask("/v1/replay", { method: "POST", body: { disposition: "unassigned" } });
    expect((await release()).body).toMatchObject({ replayed: 0, invalid: 1 });
    relay.writeSettings(settings({ [metaNumber]: "two", [otherNumber]: "two" }));
    await relay.reload();
    const accountOfNumber = async () => {
      const { data } = (await relay.ask("/v1/sources")).body as {
        data: { numbers: { number: string; account: string | null }[] }[];
      };
      return data[0]?.numbers.find(({ number }) => number === otherNumber)?.account;
    };
    await until("the number has its account", async () => (await accountOfNumber()) === "two");
    expect((await release()).body).toMatchObject({ replayed: 1, invalid: 0 });
    // The release did what the arrival of an event does.
    expect((await relay.ask("/v1/messages/wamid.2?reveal=true")).body).toMatchObject({
      account: "two",
      reference: "order-7",
    });
    // A number that has another account now makes nothing new.
    expect((await post(relay, batch)).body).toMatchObject({ events: 0, duplicates: 2 });
    expect(await kept()).toEqual([" released", "one routed", "two routed"]);
    await until("both are delivered", () => downstream.arrivals.length >= 2);
    expect(downstream.arrivals.map(({ wamid }) => wamid).length).toBe(2);
    // The release notes the number, here by the business account that has it.
    relay.writeSettings(settings({ [metaNumber]: "two" }));
    await relay.reload();
    const third = requestOf(metaChange({ statuses: [metaStatus("wamid.3", "sent")] }, otherNumber));
    expect((await post(relay, third)).body).toMatchObject({ unassigned: 1 });
    await until("the number has none", async () => (await accountOfNumber()) === null);
    relay.writeSettings(settings({ [metaNumber]: "two", [metaAccount]: "two" }));
    await relay.reload();
    expect((await release()).body).toMatchObject({ replayed: 1 });
    await until(
      "the number has its account again",
      async () => (await accountOfNumber()) === "two",
    );
    const audit = await auditOf(relay);
    expect(audit).toMatchObject({ balanced: true, offenders: [] });
  });

  test("a status registers its message by what its sender attached to it, where the source says so", async () => {
    const storage = await storageOf(engine);
    const downstream = await openDownstream();
    const relay = await startRelayHere({
      settings: {
        ...storage,
        sources: { wa: { ...source, registerBy: "callback-data" }, other: source },
        routes: [{ ...routeTo(downstream.url, { match: { tracked: true } }), payload: "enriched" }],
      },
    });
    // As long as Meta allows.
    const reference = `order-7 ${"\u{1f9fe}".repeat(504)}`;
    const ours = { biz_opaque_callback_data: reference };
    await post(
      relay,
      requestOf(
        metaChange({
          statuses: [metaStatus("wamid.1", "sent"), metaStatus("wamid.1", "delivered", ours)],
        }),
      ),
    );
    await post(relay, requestOf(metaChange({ statuses: [metaStatus("wamid.2", "sent", ours)] })), {
      path: "other",
    });
    await until("both statuses are delivered", () => downstream.arrivals.length >= 2);
    for (const { body } of downstream.arrivals)
      expect(JSON.parse(String(body))).toMatchObject({
        data: { wamid: "wamid.1" },
        relay: { message: { tracked: true, reference } },
      });
    expect((await listed(relay)).map(({ disposition }) => disposition).toSorted()).toEqual([
      "parked",
      "routed",
      "routed",
    ]);
  });

  test("a NUL character, which no database takes, harms only its own item", async () => {
    const relay = await startRelayHere({
      settings: { ...(await storageOf(engine)), sources: { wa: source }, routes: [] },
    });
    const messages = [
      {
        from: "16505551234",
        id: "wamid.\0M",
        timestamp: "1750263774",
        type: "text",
        text: { body: "\0" },
      },
    ];
    const failed = metaStatus("wamid.1", "failed", {
      errors: [{ code: "\0" }],
      biz_opaque_callback_data: "\0",
    });
    const statuses = [failed, metaStatus("wamid.\0S", "sent"), metaStatus("wamid.2", "se\0nt")];
    expect((await post(relay, requestOf(metaChange({ messages, statuses })))).body).toMatchObject({
      events: 3,
      quarantined: 1,
    });
    const found = (await listed(relay)).map(({ subject, status, errorCode, fault }) => [
      subject,
      status,
      errorCode,
      fault,
    ]);
    const about = (key: string) => ({ type: "message", key });
    // A message that came in is stored whatever its id is.
    expect(new Set(found)).toEqual(
      new Set([
        [about("wamid.1"), "failed", "\ufffd", null],
        [about("wamid.2"), "se\ufffdnt", null, null],
        [null, null, null, null],
        [null, null, null, "statuses[1].id is not a message id"],
      ]),
    );
  });

  test("only statuses wait for a registration", async () => {
    const storage = await storageOf(engine);
    const routes = [routeTo("http://127.0.0.1:9/", { match: { tracked: true } })];
    const relay = await startRelayHere({
      settings: { ...storage, sources: { wa: source }, routes },
    });
    await post(
      relay,
      requestOf(
        metaChange({
          statuses: [metaStatus("wamid.1", "sent")],
          messages: [{ id: "wamid.2", from: "1" }],
        }),
      ),
    );
    expect((await listed(relay)).map(({ event, disposition }) => [event, disposition])).toEqual([
      ["message.received", "ignored"],
      ["message.status", "parked"],
    ]);
  });
});

describe("a source of Meta's", () => {
  test("answers the handshake of any of its tokens, and no other", async () => {
    const relay = await startRelayHere({
      settings: {
        sources: {
          wa: source,
          plain: { signature: { service: "acme", secrets: ["a-secret-of-16-bytes"] } },
        },
      },
    });
    const ask = async (query: string, name = "wa") => {
      const answer = await fetch(`${relay.url}/webhooks/${name}${query}`);
      return [answer.status, answer.headers.get("content-type"), await answer.text()];
    };
    const query = (more: Record<string, string>) =>
      `?${new URLSearchParams({ "hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": token, ...more })}`;
    const right = [200, "text/plain; charset=utf-8", "1158201444"];
    expect(await ask(query({}))).toEqual(right);
    expect(await ask(query({ "hub.verify_token": "the next token" }))).toEqual(right);
    for (const wrong of [
      { "hub.verify_token": "wrong" },
      { "hub.mode": "other" },
      { "hub.challenge": "" },
      { "hub.challenge": "1".repeat(300) },
    ])
      expect((await ask(query(wrong)))[0]).toBe(403);
    expect((await ask(""))[0]).toBe(403);
    expect((await ask(query({}), "plain"))[0]).toBe(405);
    for (let n = 0; n < 30; n += 1) await ask(query({ "hub.verify_token": "wrong" }));
    expect((await ask(query({ "hub.verify_token": "wrong" })))[0]).toBe(429);
    expect(JSON.stringify(relay.log())).not.toContain(token);
  });

  test("refuses what no secret signed, and takes three megabytes", async () => {
    const relay = await startRelayHere({ settings: { sources: { wa: source } } });
    const body = requestOf(metaChange({ statuses: [metaStatus("wamid.1", "sent")] }));
    expect((await post(relay, body, { key: "wrong" })).status).toBe(401);
    expect((await post(relay, body, { key: "the next secret" })).status).toBe(200);
    const large = requestOf(
      metaChange({
        statuses: Array.from({ length: 1_000 }, (_, n) =>
          metaStatus(`wamid.L${n}`, "sent", { pad: "x".repeat(2_900) }),
        ),
      }),
    );
    expect((await post(relay, large)).body).toMatchObject({ events: 1_000 });
    expect((await post(relay, Buffer.alloc(5 * 1024 ** 2, 0x20))).status).toBe(413);
  });

  const inValue = (text: string) =>
    `{"object":"whatsapp_business_account","entry":[{"id":"1","changes":[{"field":"messages","value":${text}}]}]}`;
  const right = '{"id":"wamid.1","status":"sent","timestamp":"1750263773","recipient_id":"1"}';

  test.each<[what: string, body: string, counts: object, error: RegExp | null]>([
    [
      "too deep",
      inValue(`${"[".repeat(100_000)}${"]".repeat(100_000)}`),
      { quarantined: 1 },
      /more than 32 levels/,
    ],
    [
      "items of wrong types",
      inValue(`{"statuses":[null,[],7,{"id":1e400},${right}]}`),
      { events: 1, quarantined: 4 },
      /statuses\[0\] is not an object/,
    ],
    [
      "keys twice",
      inValue(`{"statuses":[],"statuses":[${right}],"__proto__":{"statuses":1}}`),
      { events: 2 },
      null,
    ],
  ])("answers a hostile body at once: %s", async (_what, body, counts, error) => {
    const relay = await startRelayHere({ settings: { sources: { wa: source } } });
    const none = { events: 0, duplicates: 0, quarantined: 0, unassigned: 0 };
    expect(await post(relay, Buffer.from(body))).toEqual({
      status: 200,
      body: { status: "accepted", ...none, ...counts },
    });
    if (error !== null) {
      const { body: found } = await relay.ask("/v1/events?disposition=quarantined&limit=100");
      expect(JSON.stringify(found)).toMatch(error);
    }
    expect(
      (await post(relay, requestOf(metaChange({ statuses: [metaStatus("wamid.2", "sent")] }))))
        .body,
    ).toMatchObject({ events: 1 });
  });

  test("checks a fixed header, a secret in the path, or another signature", async () => {
    const relay = await startRelayHere({
      settings: {
        sources: {
          fixed: {
            format: "meta",
            header: { name: "Authorization", values: ["Bearer of a long token"] },
          },
          path: { format: "meta", pathSecrets: ["a-secret-in-a-path"] },
          kapso: {
            format: "meta",
            signature: { header: "x-webhook-signature", secrets: [appSecret] },
          },
          both: {
            format: "meta",
            pathSecrets: ["a-secret-in-a-path"],
            signature: { secrets: [appSecret] },
          },
        },
      },
    });
    let n = 0;
    const sendTo = async (path: string, headers: Record<string, string> = {}) =>
      (
        await post(
          relay,
          requestOf(metaChange({ statuses: [metaStatus(`wamid.${n++}`, "sent")] })),
          { path, headers },
        )
      ).status;
    expect(await sendTo("fixed")).toBe(401);
    expect(await sendTo("fixed", { authorization: "Bearer of another token" })).toBe(401);
    expect(await sendTo("fixed", { authorization: "Bearer of a long token" })).toBe(200);
    expect(await sendTo("path")).toBe(401);
    expect(await sendTo("path/wrong")).toBe(401);
    expect(await sendTo("path/a-secret-in-a-path")).toBe(200);
    expect(await sendTo("path/a-secret-in-a-path/more")).toBe(401);
    expect(await sendTo("kapso")).toBe(401);
    expect(await sendTo("both")).toBe(401);
    expect(
      await sendTo("both/a-secret-in-a-path", {
        "x-hub-signature-256": `sha256=${"0".repeat(64)}`,
      }),
    ).toBe(401);
    expect(await sendTo("both/a-secret-in-a-path")).toBe(200);
    expect(await sendTo("kapso/a-secret-in-a-path")).toBe(404);
    expect(JSON.stringify(relay.log())).not.toContain("a-secret-in-a-path");
    const metrics = await (await fetch(`${relay.url}/metrics`)).text();
    expect(metrics).not.toContain("a-secret-in-a-path");
  });
});
