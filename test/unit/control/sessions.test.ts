import { beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createAllow, createTokens } from "../../../src/control/auth.ts";
import { addEndpoint, addEndpoints } from "../../../src/control/endpoint.ts";
import { createHttp } from "../../../src/control/http.ts";
import {
  type Claims,
  createSessionHandlers,
  createSessions,
} from "../../../src/control/session.ts";
import { reveal } from "../../../src/model/queries.ts";
import { Secret } from "../../../src/model/secret.ts";
import { pii } from "../../../src/model/view.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";

const ops = {
  name: "ops",
  token: new Secret("the-token-of-operators"),
  scopes: ["read", "replay", "pii"],
};
const support = { name: "support", token: new Secret("the-token-of-support"), scopes: ["read"] };
const wamid = "wamid.HBgNNTQ5MTEyMzQ1Njc4OQ==";
const masked = "wamid:c1d980beba6a";

/** As both engines keep them (test/contract/claims-contract.ts). */
function memoryClaims(): Claims {
  const claimed = new Set<string>();
  return {
    claimOnce: async (key) => claimed.size < claimed.add(key).size,
    isClaimed: (key) => claimed.has(key),
  };
}

/** One process. Several share the claims, the clock and the settings. */
function processOf(world: World) {
  const tokens = () => createTokens(world.tokens);
  const sessions = createSessions({
    tokens,
    claims: world.claims,
    now: () => world.now,
    nonce: () => String(++world.nonces).padStart(22, "n"),
  });
  const badToken = () => (++world.badTokens > 3 ? 30_000 : null);
  const allow = createAllow({
    tokens,
    badToken,
    sessionOf: sessions.of,
    guess: () => () => {},
    revealed: (...line) => void world.revealed.push(line),
  });
  const http = createHttp(null, (error) => {
    throw error;
  });
  addEndpoints(http, allow, createSessionHandlers({ sessions, tokens, badToken }));
  const schema = z.object({ wamid: pii("wamid", z.string()) });
  const thing = {
    method: "GET",
    path: "/v1/things/:name",
    name: "getThing",
    scope: "read",
    accounts: "none",
    summary: "",
    params: z.strictObject({ name: z.string() }),
    query: z.strictObject({ reveal }),
    answers: { 200: { text: "", schema } },
  } as const;
  addEndpoint(http, allow, thing, async () => ({ wamid }));
  const act = {
    method: "POST",
    path: "/v1/act",
    name: "act",
    scope: "replay",
    accounts: "none",
    summary: "",
    answers: { 200: { text: "", schema } },
  } as const;
  addEndpoint(http, allow, act, async () => ({ wamid }));

  const stay = {
    method: "GET",
    path: "/v1/stay",
    name: "stay",
    scope: "read",
    accounts: "none",
    summary: "",
    answers: { 200: { text: "", schema: z.object({ isAllowed: z.boolean() }) } },
  } as const;
  addEndpoint(http, allow, stay, async (_input, { isAllowed }) => {
    world.meanwhile();
    return { isAllowed: await isAllowed() };
  });

  async function ask(
    method: "GET" | "POST",
    url: string,
    headers: Record<string, string> = {},
    payload?: object,
  ) {
    const answer = await http.inject({
      method,
      url,
      headers: { host: "relay.example:8080", ...headers },
      ...(payload === undefined ? {} : { payload }),
    });
    return {
      status: answer.statusCode,
      body: answer.json() as Record<string, unknown>,
      headers: answer.headers,
    };
  }
  return {
    ask,
    async signIn(by: object, headers: Record<string, string> = {}) {
      const answer = await ask("POST", "/v1/session", headers, by);
      const set = String(answer.headers["set-cookie"]);
      return { ...answer, set, cookie: set.split(";")[0] as string };
    },
    bearer: (token: Secret) => ({ authorization: `Bearer ${token.reveal()}` }),
  };
}

interface World {
  tokens: (typeof ops)[];
  now: number;
  nonces: number;
  badTokens: number;
  revealed: unknown[];
  claims: Claims;
  /** Happens during an answer that lasts. */
  meanwhile(): void;
}

let world: World;
let relay: ReturnType<typeof processOf>;
const own = { "x-wamid-relay": "console" };

beforeEach(() => {
  world = {
    tokens: [ops, support],
    now: Date.parse("2026-11-23T04:00:00Z"),
    nonces: 0,
    badTokens: 0,
    revealed: [],
    claims: memoryClaims(),
    meanwhile() {},
  };
  relay = processOf(world);
});

describe("a session", () => {
  test("keeps an answer that lasts while the store is unavailable, but not without its token", async () => {
    const { cookie } = await relay.signIn({ token: ops.token.reveal() });
    const stays = async () => (await relay.ask("GET", "/v1/stay", { cookie, ...own })).body;
    const { isClaimed } = world.claims;
    world.meanwhile = () => {
      Object.assign(world.claims, {
        isClaimed() {
          throw new StoreUnavailable("PostgreSQL is away");
        },
      });
    };
    expect(await stays()).toEqual({ isAllowed: true });
    Object.assign(world.claims, { isClaimed });
    world.meanwhile = () => {
      world.tokens = [support];
    };
    expect(await stays()).toEqual({ isAllowed: false });
  });

  test("starts with a token, and its cookie authorizes requests until 12 hours have passed", async () => {
    const { status, body, set, cookie } = await relay.signIn({ token: ops.token.reveal() });
    expect([status, body]).toEqual([
      200,
      { name: "ops", scopes: ops.scopes, accounts: null, expiresAt: "2026-11-23T16:00:00.000Z" },
    ]);
    expect(set).toMatch(
      /^wamid-relay-8080=[\w.-]+; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/,
    );
    expect(cookie).not.toContain(ops.token.reveal());

    world.now += 12 * 3_600_000 - 1;
    expect((await relay.ask("GET", "/v1/session", { cookie, ...own })).body).toEqual(body);
    expect((await relay.ask("POST", "/v1/act", { cookie, ...own })).status).toBe(200);
    world.now += 1;
    for (const path of ["/v1/session", "/v1/things/one"])
      expect((await relay.ask("GET", path, { cookie, ...own })).body["code"]).toBe("unauthorized");
  });

  test("has the Secure attribute where the page came over https", async () => {
    const { set } = await relay.signIn(
      { token: ops.token.reveal() },
      { host: "relay.example", origin: "https://relay.example" },
    );
    expect(set).toMatch(/^wamid-relay=.*; Secure/);
  });

  test("has the scopes of its token, and no more", async () => {
    const { cookie } = await relay.signIn({ token: support.token.reveal() });
    expect((await relay.ask("GET", "/v1/things/one", { cookie, ...own })).status).toBe(200);
    expect(await relay.ask("POST", "/v1/act", { cookie, ...own })).toMatchObject({
      status: 403,
      body: { code: "forbidden" },
    });
    world.tokens = [ops, { ...support, scopes: ["replay"] }];
    expect((await relay.ask("POST", "/v1/act", { cookie, ...own })).status).toBe(200);
  });

  test("ends when its token is changed or removed, and only then", async () => {
    const { cookie } = await relay.signIn({ token: ops.token.reveal() });
    const status = async () =>
      (await relay.ask("GET", "/v1/things/one", { cookie, ...own })).status;
    world.tokens = [support, { ...ops, name: "renamed" }];
    expect(await status()).toBe(200);
    world.tokens = [{ ...ops, token: new Secret("another-token-of-operators") }, support];
    expect(await status()).toBe(401);
    world.tokens = [support];
    expect(await status()).toBe(401);
    world.tokens = [ops];
    expect(await status()).toBe(200);
  });

  test("holds on another process, and after its end on none", async () => {
    const other = processOf(world);
    const { cookie } = await relay.signIn({ token: ops.token.reveal() });
    const { cookie: second } = await relay.signIn({ token: ops.token.reveal() });
    expect((await other.ask("GET", "/v1/session", { cookie, ...own })).status).toBe(200);

    const ended = await relay.ask("POST", "/v1/session/end", { cookie, ...own });
    expect([ended.status, ended.body]).toEqual([200, { ended: true }]);
    expect(ended.headers["set-cookie"]).toMatch(/^wamid-relay-8080=; Max-Age=0; /);
    for (const each of [relay, other])
      expect((await each.ask("GET", "/v1/things/one", { cookie, ...own })).status).toBe(401);
    expect((await relay.ask("POST", "/v1/session/end", { cookie, ...own })).body).toEqual({
      ended: false,
    });
    expect((await other.ask("GET", "/v1/session", { cookie: second, ...own })).status).toBe(200);
  });

  test("signing out without a cookie ends nothing, and deletes no cookie", async () => {
    const { status, body, headers } = await relay.ask("POST", "/v1/session/end", {});
    expect([status, body, headers["set-cookie"]]).toEqual([200, { ended: false }, undefined]);
  });

  test("is refused without its header and for the page of another origin", async () => {
    const { cookie } = await relay.signIn({ token: ops.token.reveal() });
    const code = async (method: "GET" | "POST", path: string, headers: object) =>
      (await relay.ask(method, path, { cookie, ...headers })).body["code"];
    for (const [method, path] of [
      ["GET", "/v1/session"],
      ["GET", "/v1/things/one"],
      ["POST", "/v1/act"],
      ["POST", "/v1/session/end"],
    ] as const) {
      expect(await code(method, path, {})).toBe("forbidden");
      expect(await code(method, path, { "x-wamid-relay": "other" })).toBe("forbidden");
      for (const origin of [
        "https://evil.example",
        "http://relay.example",
        "null",
        "http://relay.example:8080.evil.example",
        "%",
      ])
        expect([origin, await code(method, path, { ...own, origin })]).toEqual([
          origin,
          "forbidden",
        ]);
    }
    expect(
      await code("GET", "/v1/things/one", { ...own, origin: "http://relay.example:8080" }),
    ).toBeUndefined();
    // A proxy changed the host, and the browser says that the page is the relay's own.
    const behindProxy = {
      ...own,
      origin: "https://public.example",
      "sec-fetch-site": "same-origin",
    };
    expect(await code("GET", "/v1/things/one", behindProxy)).toBeUndefined();
  });

  test("cannot be started by the page of another origin", async () => {
    expect(
      (await relay.signIn({ token: ops.token.reveal() }, { origin: "https://evil.example" }))
        .status,
    ).toBe(403);
  });

  test.each([
    "wamid-relay-8080=",
    "wamid-relay-8080=x",
    `wamid-relay-8080=s.${"x".repeat(150)}`,
    "wamid-relay-8080=%E0%A4%A",
    'wamid-relay-8080="quoted"',
    "wamid-relay-8080=s.............",
    "wamid-relay-8080=s.AAAAAAAAAAAA.9999999999999.nnnnnnnnnnnnnnnnnnnnn1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "__proto__=x; constructor=y; wamid-relay-8080=__proto__",
  ])("does not come of the hostile cookie %s", async (cookie) => {
    expect((await relay.ask("GET", "/v1/things/one", { cookie, ...own })).body["code"]).toBe(
      "unauthorized",
    );
    expect((await relay.ask("POST", "/v1/session/end", { cookie, ...own })).body).toEqual({
      ended: false,
    });
  });

  test("does not survive a change of any part of its cookie", async () => {
    const { cookie } = await relay.signIn({ token: ops.token.reveal() });
    const [name = "", value = ""] = cookie.split("=");
    const parts = value.split(".");
    for (const index of parts.keys()) {
      const flipped = parts.map((part, at) =>
        at === index ? part.replace(/.$/, (last) => (last === "1" ? "2" : "1")) : part,
      );
      expect(
        (await relay.ask("GET", "/v1/session", { cookie: `${name}=${flipped.join(".")}`, ...own }))
          .status,
      ).toBe(401);
    }
    expect((await relay.ask("GET", "/v1/session", { cookie, ...own })).status).toBe(200);
  });

  test("does not replace a bearer token: one that is wrong stays wrong", async () => {
    const { cookie } = await relay.signIn({ token: ops.token.reveal() });
    expect(
      (await relay.ask("GET", "/v1/things/one", { cookie, ...own, authorization: "Bearer wrong" }))
        .status,
    ).toBe(401);
  });
});

describe("a wrong token or code", () => {
  test("counts toward the limit of bad tokens; a page load without session does not", async () => {
    for (const by of [{ token: "wrong" }, { code: "wrong" }, { token: "wrong" }])
      expect(await relay.signIn(by)).toMatchObject({ status: 401, body: { code: "unauthorized" } });
    expect(world.badTokens).toBe(3);
    expect((await relay.ask("GET", "/v1/session")).status).toBe(401);
    expect(world.badTokens).toBe(3);
    const refused = await relay.signIn({ token: "wrong" });
    expect([refused.status, refused.headers["retry-after"], refused.set]).toEqual([
      429,
      "30",
      "undefined",
    ]);
    expect((await relay.signIn({ token: ops.token.reveal() })).status).toBe(200);
  });

  test.each([
    {},
    { token: "" },
    { token: 5 },
    { token: "a", code: "b" },
    { code: "x".repeat(1_000) },
    [],
  ])("is a bad request in the form %j", async (body) => {
    expect((await relay.ask("POST", "/v1/session", {}, body as object)).status).toBe(400);
  });
});

describe("a one-time code", () => {
  const codeOf = async () => {
    const { status, body } = await relay.ask(
      "POST",
      "/v1/session/code",
      relay.bearer(support.token),
    );
    expect([status, body["expiresAt"]]).toEqual([200, new Date(world.now + 60_000).toISOString()]);
    return body["code"] as string;
  };

  test("starts one session with the rights of its token, on any process", async () => {
    const other = processOf(world);
    const code = await codeOf();
    expect(await other.signIn({ code })).toMatchObject({
      status: 200,
      body: { name: "support", scopes: ["read"] },
    });
    for (const each of [relay, other]) expect((await each.signIn({ code })).status).toBe(401);
  });

  test("expires after 60 seconds", async () => {
    const [early, late] = [await codeOf(), await codeOf()];
    world.now += 59_999;
    expect((await relay.signIn({ code: early })).status).toBe(200);
    world.now += 1;
    expect((await relay.signIn({ code: late })).status).toBe(401);
  });

  test("ends with its token", async () => {
    const code = await codeOf();
    world.tokens = [ops];
    expect((await relay.signIn({ code })).status).toBe(401);
  });

  test("is no session, and a session's cookie is no code", async () => {
    const code = await codeOf();
    expect(
      (await relay.ask("GET", "/v1/session", { cookie: `wamid-relay-8080=${code}`, ...own }))
        .status,
    ).toBe(401);
    const { cookie } = await relay.signIn({ code });
    expect((await relay.signIn({ code: cookie.split("=")[1] })).status).toBe(401);
  });

  test("is not for a session, nor for nobody", async () => {
    const { cookie } = await relay.signIn({ token: ops.token.reveal() });
    expect((await relay.ask("POST", "/v1/session/code", { cookie, ...own })).status).toBe(403);
    expect((await relay.ask("POST", "/v1/session/code")).status).toBe(401);
  });
});

describe("personal data", () => {
  const read = async (headers: Record<string, string>, query = "") => {
    const {
      status,
      body,
      headers: got,
    } = await relay.ask("GET", `/v1/things/${encodeURIComponent(wamid)}${query}`, headers);
    return [status, body["wamid"] ?? body["code"], got["x-wamid-relay-masked"]];
  };

  test("is in clear for a bearer token with the scope pii, masked for one without", async () => {
    expect(await read(relay.bearer(ops.token))).toEqual([200, wamid, undefined]);
    expect(await read(relay.bearer(support.token))).toEqual([200, masked, "true"]);
    expect(world.revealed).toEqual([]);
  });

  test("is masked for a session until it asks to reveal it, which is logged", async () => {
    const { cookie } = await relay.signIn({ token: ops.token.reveal() });
    const session = { cookie, ...own };
    expect(await read(session)).toEqual([200, masked, "true"]);
    expect(await read(session, "?reveal=false")).toEqual([200, masked, "true"]);
    expect((await relay.ask("POST", "/v1/act", session)).body).toEqual({ wamid: masked });
    expect(world.revealed).toEqual([]);
    expect(await read(session, "?reveal=true")).toEqual([200, wamid, undefined]);
    expect(world.revealed).toEqual([["ops", "getThing", { name: wamid }]]);
  });

  test("is not revealed without the scope pii", async () => {
    const { cookie } = await relay.signIn({ token: support.token.reveal() });
    for (const headers of [{ cookie, ...own }, relay.bearer(support.token)])
      expect(await read(headers, "?reveal=true")).toEqual([403, "forbidden", undefined]);
    expect(world.revealed).toEqual([]);
  });
});
