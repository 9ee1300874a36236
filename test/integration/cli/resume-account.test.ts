// Slow: it starts a relay and the sandbox several times.
import { describe, expect, test } from "vitest";
import { type Engine, storageOf } from "../../harness/engines.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { until } from "../../harness/until.ts";
import { startHttp } from "../url-destination/downstream.ts";
import { doctorOn, jsonOf, runOn, runProcessOn, runRemote } from "./run-cli.ts";

/**
 * Answers 429 of the quota `refusing` names to run starts and messages, each as its path says, and
 * dates its answers now.
 */
async function openService() {
  const refusing = new Map<"runs" | "messages", string | null>();
  const asked: string[] = [];
  const { port } = await startHttp((request, response) => {
    const what =
      request.url?.endsWith("/runs") === true
        ? "runs"
        : request.url?.endsWith("/messages") === true
          ? "messages"
          : null;
    if (what !== null) asked.push(what);
    const resource = what === null ? undefined : refusing.get(what);
    response.setHeader("content-type", "application/json");
    if (resource !== undefined) {
      const cause = {
        type: "upgrade",
        reason: "limit",
        plan: "escala",
        limit: 1,
        used: 1,
        suggested: "enterprise",
      };
      response.writeHead(429).end(
        JSON.stringify({
          error: "Sin cupo.",
          cause: resource === null ? cause : { ...cause, resource },
        }),
      );
    } else if (what === "runs")
      response.writeHead(201).end('{"runId":"01900000-0000-7000-8000-000000000001"}');
    else if (what === "messages") {
      const ids = {
        id: `m-${asked.length}`,
        wamid: `wamid.${asked.length}`,
        status: "pending",
        conversationId: "c",
      };
      response.writeHead(201).end(JSON.stringify(ids));
    } else response.end("{}");
  });
  return { url: `http://127.0.0.1:${port}`, refusing, asked };
}

async function setUp(engine: Engine = "sqlite") {
  const service = await openService();
  const accounts = {
    main: { baseUrl: service.url, apiKey: "key-of-main", plan: "escala" },
    silent: {},
  };
  const relay = await startRelayHere({ settings: { ...(await storageOf(engine)), accounts } });
  let runs = 0;
  const startRun = () => {
    runs += 1;
    const body = { account: "main", phone: "+5491155550101", reference: `run-${runs}` };
    return relay.ask("/v1/automations/01900000-0000-7000-8000-00000000000a/runs", {
      method: "POST",
      body,
    });
  };
  const send = () =>
    relay.ask("/v1/messages", {
      method: "POST",
      body: { account: "main", to: "+5491155550101", text: "hola" },
    });
  return { service, relay, startRun, send };
}

async function stoppedOf(relay: RelayHere): Promise<string[]> {
  const text = String((await relay.ask("/metrics")).body);
  return [...text.matchAll(/^relay_service_stopped\{account="main",reason="([\w-]+)"\} 1$/gm)].map(
    ([, reason]) => reason ?? "",
  );
}

async function doctorLines(relay: RelayHere): Promise<string[]> {
  const { checks } = await doctorOn(relay);
  return checks.flatMap(({ check, level, message, todo }) =>
    ["service", "account-stopped"].includes(check) && level !== "skip"
      ? [`${level} ${message} ${todo ?? ""}`]
      : [],
  );
}

describe("a used-up quota", () => {
  test("stops only what its resource covers, is shown everywhere, and ends by a command", {
    tags: ["slow"],
  }, async () => {
    const { service, relay, startRun, send } = await setUp();
    service.refusing.set("runs", "automationSteps");
    for (let n = 0; n < 2; n += 1) {
      expect(await startRun()).toMatchObject({
        status: 429,
        body: {
          code: "service_quota_used_up",
          details: { stop: "quota-runs", resource: "automationSteps" },
        },
      });
    }
    expect((await send()).status).toBe(201);
    expect(service.asked).toEqual(["runs", "messages"]);
    expect(await stoppedOf(relay)).toEqual(["quota-runs"]);
    const { body } = await relay.ask("/readyz");
    expect(body).toMatchObject({
      ready: true,
      stops: [{ account: "main", reason: "quota-runs", resource: "automationSteps" }],
    });
    await until("doctor knows", async () => (await doctorLines(relay)).length === 2);
    const [stop, key] = await doctorLines(relay);
    expect(key).toMatch(/^ok main: the key works/);
    expect(stop).toContain(
      "warn The monthly quota automationSteps of account main is used up: the relay starts no automation runs",
    );
    expect(stop).toContain("wamid-relay resume --account main");

    service.refusing.clear();
    const ended = "main: called again (was stopped: quota-runs)\n";
    expect(await runProcessOn(relay, "resume", "--account", "main")).toEqual({
      code: 0,
      out: ended,
      err: "",
    });
    // On PostgreSQL the command is another process: this one learns of it within seconds, or with
    // its next call.
    await until("run starts go again", async () => (await startRun()).status === 201);
    expect(await stoppedOf(relay)).toEqual([]);
    expect(jsonOf(await runOn(relay, "resume", "--account", "main", "--json"))).toEqual({
      account: "main",
      resumed: false,
      ended: [],
    });
  });

  test("of calls stops all of them, and ends by HTTP and by SIGHUP without other settings", async () => {
    const { service, relay, startRun, send } = await setUp();
    for (const end of ["http", "sighup"]) {
      service.refusing.set("messages", "apiCalls");
      expect(await send()).toMatchObject({
        status: 429,
        body: { details: { stop: "quota", resource: "apiCalls" } },
      });
      expect(await startRun()).toMatchObject({ status: 429, body: { details: { stop: "quota" } } });
      service.refusing.clear();
      if (end === "sighup") await relay.reload();
      else {
        const { body } = await relay.ask("/v1/accounts/main/resume", { method: "POST" });
        expect(body).toEqual({ account: "main", resumed: true, ended: ["quota"] });
      }
      expect((await startRun()).status).toBe(201);
      expect((await send()).status).toBe(201);
    }
  });

  test("reports that an account is not stopped, and rejects an unknown account", async () => {
    const { relay } = await setUp();
    expect((await runRemote(relay, "resume", "--account", "silent")).out).toBe(
      "silent: was not stopped\n",
    );
    expect(await runRemote(relay, "resume", "--account", "nobody")).toEqual({
      code: 1,
      out: "",
      err: expect.stringMatching(
        /^wamid-relay: unknown account "nobody" \(there are: .*main.*\)\n$/,
      ),
    });
    expect((await relay.ask("/v1/accounts/nobody/resume", { method: "POST" })).status).toBe(404);
  });
});

test("on PostgreSQL, resume ends a stop while no relay runs", async () => {
  const { service, relay, startRun } = await setUp("postgres");
  service.refusing.set("runs", null);
  expect(await startRun()).toMatchObject({
    status: 429,
    body: { details: { stop: "quota-runs" } },
  });
  await until("it is stored", async () => (await doctorLines(relay)).length === 2);
  await relay.stop();
  expect((await doctorLines(relay))[0]).toContain(
    "A monthly quota of account main is used up: the relay starts no automation runs",
  );
  expect((await runOn(relay, "resume", "--account", "main")).out).toBe(
    "main: called again (was stopped: quota-runs)\n",
  );
  expect(await doctorLines(relay)).toHaveLength(1);
  service.refusing.clear();
  await relay.start();
  expect((await startRun()).status).toBe(201);
});
