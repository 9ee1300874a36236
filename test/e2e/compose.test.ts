// @module-tag slow: it starts every process of compose.yaml and stops one.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { substitute } from "../../src/config/tree.ts";
import { openDownstream } from "../harness/downstream.ts";
import { readPage, root } from "../harness/pages.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { startProgram } from "../harness/program.ts";
import { entry } from "../harness/relay-process.ts";
import { until } from "../harness/until.ts";
import { freePort } from "../setup/free-port.ts";
import { startPostgres } from "../setup/postgres.ts";

interface Service {
  readonly image: string;
  readonly restart: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly deploy?: {
    readonly replicas: number;
    readonly resources?: { readonly limits: { readonly memory: string } };
  };
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly logging?: { readonly options: Readonly<Record<string, string>> };
  readonly healthcheck?: { readonly test: readonly string[] };
}

const run = promisify(execFile);
const compose = parse(readPage("compose.yaml"), { merge: true }) as {
  readonly services: Readonly<Record<"receive" | "work" | "balance" | "postgres", Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
};
const { receive, work, balance, postgres } = compose.services;

/** As Compose fills variables in; `:?` is one that must be set. */
function filled(text: string, env: Readonly<Record<string, string>>): string {
  const { text: value, problems } = substitute(text.replace(/\$\{(\w+):\?[^}]*\}/g, "${$1}"), env);
  expect(problems).toEqual([]);
  return value;
}

/**
 * The processes of a service, each at a port of its own instead of in a container of its own; ended
 * at the test's end.
 */
async function start(
  service: Service,
  secrets: Readonly<Record<string, string>>,
  databasePort: number,
) {
  return Promise.all(
    Array.from({ length: service.deploy?.replicas ?? 1 }, async () => {
      const port = await freePort();
      const given = Object.entries(service.environment ?? {}).map(([name, value]) => [
        name,
        filled(value, secrets).replace("@postgres:5432", `@127.0.0.1:${databasePort}`),
      ]);
      const env = {
        PATH: process.env["PATH"],
        ...Object.fromEntries(given),
        PORT: String(port),
        RELAY_HOST: "127.0.0.1",
      };
      const program = startProgram(process.execPath, [entry, ...(service.command ?? [])], {
        cwd: root,
        env,
      });
      const url = `http://127.0.0.1:${port}`;
      const ready = () =>
        program.until(
          "it is ready",
          async () => (await fetch(`${url}/readyz`).catch(() => null))?.status === 200,
        );
      return { url, env, end: program.end, ready };
    }),
  );
}

test("defines two receivers, two workers, one address and one PostgreSQL, which restart and whose mounts exist", () => {
  expect([receive.deploy?.replicas, work.deploy?.replicas]).toEqual([2, 2]);
  for (const [name, service] of Object.entries(compose.services)) {
    expect([name, service.restart]).toEqual([name, "unless-stopped"]);
    for (const volume of service.volumes ?? []) {
      const [from = ""] = volume.split(":");
      if (from.startsWith("./")) expect(existsSync(join(root, from)), volume).toBe(true);
      else expect(Object.keys(compose.volumes)).toContain(from);
    }
  }
  // Only the load balancer is reached from outside.
  expect(Object.entries(compose.services).filter(([, { ports }]) => ports !== undefined)).toEqual([
    ["balance", balance],
  ]);
  expect([balance, postgres].map(({ healthcheck }) => healthcheck?.test[0])).toEqual([
    "CMD",
    "CMD",
  ]);
  // The image's own check, with the settings that these processes have.
  const ofImage = JSON.parse(
    /^HEALTHCHECK .*\n {2}CMD (\[.*\])$/m.exec(readPage("Dockerfile"))?.[1] ?? "[]",
  ) as string[];
  for (const { command, healthcheck } of [receive, work])
    expect(healthcheck?.test).toEqual(["CMD", ...ofImage.slice(0, -1), command?.at(-1)]);
  const balancing = readPage("deploy/haproxy/haproxy.cfg");
  expect(balancing).toMatch(/^ {4}server-template receive- \d+ receive:8080 resolvers network /m);
  expect(balancing).toMatch(/^ {4}bind :8080$/m);
  const published = [/^127\.0\.0\.1:.*:8080$/, /^127\.0\.0\.1:.*:9090$/];
  expect(balance.ports).toEqual(published.map((each) => expect.stringMatching(each)));
  for (const [name, { read_only, cap_drop, security_opt, logging, deploy }] of Object.entries(
    compose.services,
  )) {
    const hardened = [
      name,
      read_only,
      cap_drop,
      security_opt,
      logging?.options["max-size"],
      typeof deploy?.resources?.limits.memory,
    ];
    expect(hardened).toEqual([name, true, ["ALL"], ["no-new-privileges:true"], "10m", "string"]);
  }
});

test("the Compose commands of the docs and compose.yaml name existing services", () => {
  for (const file of ["docs/how-to/run-on-several-hosts.md", "compose.yaml"]) {
    const shown = [...readPage(file).matchAll(/docker compose (?:up .*--scale|run --rm) (\w+)/g)];
    expect(shown.length, file).toBeGreaterThan(0);
    for (const [, service] of shown) expect(Object.keys(compose.services)).toContain(service);
  }
});

// No Docker engine runs where these tests do: the same commands, environments and settings, as
// processes.
test("the processes of compose.yaml accept an event at either receiver, deliver it once, and continue without one worker", async () => {
  const downstream = await openDownstream();
  const secrets = {
    WEBHOOK_SECRET: "webhook-secret-of-compose",
    RELAY_TOKEN: "control-token-of-compose",
    POSTGRES_PASSWORD: "passwordofcompose",
    CRM_SECRET: "crm-secret-of-compose",
    CRM_URL: downstream.url,
    CRM_IS_PRIVATE: "true",
  };
  const [program, ...args] = postgres.command ?? [];
  expect(program).toBe("postgres");
  const settings = Object.fromEntries(
    args.filter((arg) => arg !== "-c").map((arg) => arg.split("=") as [string, string]),
  );
  await using server = await startPostgres({ durable: true, tcp: true, settings });
  const { POSTGRES_USER: user, POSTGRES_DB: database } = postgres.environment ?? {};
  const client = new Client(server.url);
  await client.connect();
  await client.query(`CREATE DATABASE ${database} OWNER ${user}`);
  await client.end();

  const receivers = await start(receive, secrets, server.port);
  const workers = await start(work, secrets, server.port);
  await Promise.all([...receivers, ...workers].map((one) => one.ready()));

  const [first, second] = receivers as [(typeof receivers)[0], (typeof receivers)[0]];
  const messages = createMessages("compose");
  const failed = async (wamid = messages.wamid()) => {
    const answer = await fetch(`${second.url}/v1/messages/track`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${secrets.RELAY_TOKEN}`,
        "content-type": "application/json",
      },
      body: JSON.stringify({ account: "main", wamid, reference: "order-1" }),
    });
    expect(answer.status).toBe(200);
    return messages.status(wamid, "failed");
  };
  const post = (to: { readonly url: string }, event: Awaited<ReturnType<typeof failed>>) =>
    postEvent(`${to.url}/webhooks/main`, event, { secret: secrets.WEBHOOK_SECRET });

  const event = await failed();
  expect((await post(first, event)).word).toBe("accepted");
  expect((await post(second, event)).word).toBe("duplicate");
  // And settled: a worker that is killed before that leaves it to the other one.
  await until("it is delivered", async () => {
    const stats = await fetch(`${second.url}/v1/stats`, {
      headers: { authorization: `Bearer ${secrets.RELAY_TOKEN}` },
    });
    return (
      ((await stats.json()) as { deliveries?: { delivered: number } }).deliveries?.delivered === 1
    );
  });

  const doctor = [
    "doctor",
    "--json",
    "--offline",
    "--config",
    (work.command ?? []).at(-1) as string,
  ];
  const said = await run(process.execPath, [entry, ...doctor], {
    cwd: root,
    env: (workers[0] as (typeof workers)[0]).env,
  });
  const { checks } = JSON.parse(said.stdout) as {
    checks: { check: string; level: string; message: string }[];
  };
  const found = checks.filter(({ check: name }) =>
    /^(postgres|postgres (durability|connections)|processes)$/.test(name),
  );
  expect(found.map(({ check: name, level }) => `${level} ${name}`)).toEqual([
    "ok postgres",
    "ok processes",
  ]);
  expect(found.at(-1)?.message).toBe("2 receive, 2 work");

  await workers[0]?.end("SIGKILL");
  expect((await post(first, await failed())).word).toBe("accepted");
  await until("the other worker delivers", () => downstream.counts().taken === 2);
  expect(downstream.counts().arrivals).toBe(2);
});
