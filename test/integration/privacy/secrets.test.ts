import { createHmac, randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { openEcho, openMirror } from "../../harness/echo.ts";
import { engines, storageOf } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken, routeTo, webhookSecret } from "../../harness/relay-settings.ts";
import { runHere } from "../../harness/run-here.ts";
import { until } from "../../harness/until.ts";

const apiKey = "sk_live_0f9e8d7c6b5a+/4433";
const oldHeader = "Bearer old/header+value=1";
const newHeader = "Bearer new/header+value=2";
const password = "basic+password/1";
const signingSecret = `whsec_${Buffer.from("a destination's own secret").toString("base64")}`;
const queryToken = "query/token+value";

const secrets = [
  apiKey,
  oldHeader.slice(7),
  newHeader.slice(7),
  password,
  btoa(`user:${password}`),
  signingSecret,
  queryToken,
  relayToken,
  webhookSecret,
];

/** Too short to be looked for in base64. */
const shortSecret = "s3crT";

/** Spellings in which a secret may come back. */
function spellings(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const base64 = bytes.toString("base64").replace(/=+$/, "");
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    secret.replaceAll("/", "\\/"),
    encodeURIComponent(secret),
    base64.slice(0, -1),
  ];
}

function expectNone(text: string): void {
  // As the text stands, and what base64 in it says.
  const decoded = [...text.matchAll(/[A-Za-z0-9+/_-]{16,}={0,2}/g)].map(([word]) =>
    Buffer.from(word, "base64").toString("utf8"),
  );
  const all = [text, ...decoded].join("\n");
  expect(
    secrets.filter((secret) => spellings(secret).some((spelling) => all.includes(spelling))),
  ).toEqual([]);
  expect(text).not.toContain(shortSecret);
  // A signature is good for one event and some minutes; in base64 it is not looked for.
  expect(text).not.toMatch(/v1,[A-Za-z0-9+/]{43}=/);
}

/** How echoes in the field write what they were sent. */
const shows: Readonly<Record<string, (request: string) => string>> = {
  plain: (request) => request,
  json: (request) => JSON.stringify({ request }).replaceAll("/", "\\/"),
  form: (request) => new URLSearchParams({ request }).toString(),
  base64: (request) => Buffer.from(`.${request}`).toString("base64"),
};

test.each(engines)(
  "an echoing destination brings no secret into attempts, views and logs (%s)",
  async (engine) => {
    const echoes = await Promise.all(
      Object.values(shows).flatMap((show) => [openEcho(200, show), openEcho(500, show)]),
    );
    const mirror = await openMirror();
    const once = {
      order: "none",
      retry: { schedule: ["0s", "10h"], jitter: 0 },
      breaker: { failures: 1_000_000 },
    };
    const storage = await storageOf(engine);
    const routesWith = (authorization: string) => [
      ...[...echoes, mirror].map(({ url }, at) =>
        routeTo(`${url}/in?token=${encodeURIComponent(queryToken)}`, {
          name: `echo-${at}`,
          to: {
            ...once,
            secret: signingSecret,
            headers: { authorization, "x-short": shortSecret },
          },
        }),
      ),
      routeTo(echoes[0]?.url ?? "", {
        name: "basic",
        to: {
          ...once,
          passSignature: true,
          headers: { authorization: `Basic ${btoa(`user:${password}`)}` },
        },
      }),
    ];
    const settings = (authorization: string) => ({
      ...storage,
      tracking: { unknown: "forward" },
      routes: routesWith(authorization),
    });
    const relay = await startRelayHere({ settings: settings(oldHeader) });
    const attempts = () => relay.log().filter(({ msg }) => msg === "attempt").length;
    const ids = [randomUUID(), randomUUID()];
    const bodyOf = (id: string | undefined) =>
      Buffer.from(
        JSON.stringify({
          id,
          event: "message.status",
          createdAt: "2026-11-21T12:00:00Z",
          data: { wamid: `w-${id}`, status: "sent" },
        }),
      );
    const signatures: string[] = [];
    const routes = echoes.length + 2;

    for (const [at, id] of ids.entries()) {
      if (at === 1) {
        relay.writeSettings(settings(newHeader));
        await relay.reload();
      }
      signatures.push(createHmac("sha256", webhookSecret).update(bodyOf(id)).digest("hex"));
      await postEvent(relay.webhookUrl, bodyOf(id));
      await until("every route has its attempt", () => attempts() === (at + 1) * routes);
    }

    const texts: string[] = [];
    for (const id of ids) {
      const body = await until("every attempt is written down", async () => {
        const event = (await relay.ask(`/v1/events/${id}`)).body as {
          deliveries: { attemptHistory: { response: string | null }[] }[];
        };
        return event.deliveries.every(({ attemptHistory }) => attemptHistory.length > 0) && event;
      });
      const { deliveries } = body;
      expect(deliveries).toHaveLength(routes);
      // The echo was kept, without the secrets.
      expect(
        deliveries.filter(({ attemptHistory }) => attemptHistory[0]?.response?.includes("[secret]"))
          .length,
      ).toBeGreaterThanOrEqual(routes - 1);
      expect(JSON.stringify(deliveries)).not.toContain(signatures[0]);
      expect(JSON.stringify(deliveries)).not.toContain(signatures[1]);
      // The body of the event is what was received; the answers of the destinations are what is
      // looked at.
      texts.push(
        JSON.stringify({ ...body, body: "" }),
        JSON.stringify((await relay.ask(`/v1/explain/${id}`)).body),
      );
    }
    texts.push(
      JSON.stringify((await relay.ask("/v1/deliveries")).body),
      (await relay.ask("/metrics")).body as string,
    );
    texts.push(...relay.log().map((line) => JSON.stringify(line)));
    for (const more of [[], ["--json"], ["--show-pii"]]) {
      for (const command of [
        ["events", "show", ids[0] ?? ""],
        ["explain", ids[1] ?? ""],
        ["deliveries", "list"],
      ]) {
        const { code, out, err } = await runHere([
          ...command,
          "--config",
          relay.settingsPath,
          ...more,
        ]);
        expect({ code, err }).toEqual({ code: 0, err: "" });
        texts.push(out);
      }
    }
    for (const text of texts) expectNone(text);
  },
);

test.each(engines)(
  "a service that echoes the API key brings it to no caller, log or stored send (%s)",
  async (engine) => {
    let show: keyof typeof shows = "plain";
    const body = (request: string) =>
      JSON.stringify({ error: shows[show]?.(request), cause: null });
    const service = await openEcho(409, body);
    const relay = await startRelayHere({
      settings: {
        ...(await storageOf(engine)),
        accounts: { main: { baseUrl: service.url, apiKey, plan: "enterprise", share: 1 } },
      },
    });
    for (show of Object.keys(shows)) {
      for (let time = 0; time < 2; time += 1) {
        const answer = await fetch(`${relay.url}/v1/messages`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${relayToken}`,
            "content-type": "application/json",
            "idempotency-key": `key-${show}`,
          },
          body: JSON.stringify({ to: "+5491155551234", text: "hello" }),
        });
        const text = await answer.text();
        expect(answer.status).toBeGreaterThanOrEqual(400);
        expect(text).toContain("[secret]");
        expectNone(text);
      }
    }
    const env = { RELAY_TOKEN: relayToken };
    await relay.ask("/v1/messages", { method: "POST", body: { to: "+123456", text: "hello" } });
    // Of a long number the beginning shows whose it is; of a short one that would be nearly all of
    // it.
    expect(relay.log().flatMap(({ to }) => (to === undefined ? [] : [to]))).toEqual(
      expect.arrayContaining(["+54…34", "…56"]),
    );
    const sent = await runHere(
      ["send", "--config", relay.settingsPath, "--to", "+5491155551234", "--text", "hello"],
      env,
    );
    expect(sent.code).toBe(1);
    expectNone(`${sent.out}\n${sent.err}`);
    const doctor = await runHere(["doctor", "--config", relay.settingsPath], env);
    expectNone(`${doctor.out}\n${doctor.err}`);
    const reconciled = await relay.ask("/v1/reconcile", { method: "POST", body: {} });
    expectNone(JSON.stringify(reconciled.body));
    for (const line of relay.log()) expectNone(JSON.stringify(line));
  },
);
