// @module-tag slow: it needs programs of systemd.
import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { parseSettings } from "../../src/config/load.ts";
import { readPage } from "../harness/pages.ts";
import { startRelayHere } from "../harness/relay-here.ts";
import { tempFolder } from "../harness/temp-folder.ts";
import { findProgram } from "../setup/find-program.ts";

const folder = new URL("../../deploy/", import.meta.url).pathname;
const read = (path: string) => readFileSync(join(folder, path), "utf8");
const secrets = tempFolder();
mkdirSync(join(secrets, "credentials"));
for (const name of ["relay-token", "webhook-secret"])
  writeFileSync(join(secrets, name), `${name}-of-the-deploy-test`);
writeFileSync(join(secrets, "crm-secret"), `whsec_${Buffer.alloc(32, 7).toString("base64")}`);
for (const name of ["relay-token", "webhook-secret", "crm-secret"])
  copyFileSync(join(secrets, name), join(secrets, "credentials", name));
writeFileSync(join(secrets, "postgres-url"), "postgres://relay:password@postgres:5432/relay");

const unit = read("systemd/wamid-relay.service");

test("the systemd unit is valid, and exposes little of the machine", async () => {
  const run = promisify(execFile);
  const analyze = findProgram("systemd-analyze", { package: "systemd" });
  const file = join(secrets, "wamid-relay.service");
  writeFileSync(file, unit);
  const { stderr } = await run(analyze, ["verify", file]);
  expect(stderr.split("\n").filter((line) => line.includes("wamid-relay.service"))).toEqual([]);
  // Exit code 1 above this level, in tenths.
  await run(analyze, ["security", "--offline=yes", "--threshold=20", file]);
  await expect(
    run(analyze, ["security", "--offline=yes", "--threshold=5", file]),
  ).rejects.toThrow();
});

test("the settings for systemd need no variable, name the secrets of the steps, and the unit's user owns the store", () => {
  const steps = readPage("docs/how-to/deploy.md");
  const text = read("systemd/relay.yaml");
  const used = [...text.matchAll(/\$\{file:credentials\/([\w-]+)\}/g)].map(([, name]) => name);
  expect(used.sort()).toEqual(
    [...steps.matchAll(/> credentials\/([\w-]+)$/gm)].map(([, name]) => name).sort(),
  );
  // A shell has none of the unit's variables.
  const { server, storage } = parseSettings(text, join(secrets, "relay.yaml"), {});
  expect(storage).toMatchObject({ path: "/var/lib/wamid-relay/relay.db" });
  expect(unit).toContain("StateDirectory=wamid-relay\n");
  const [, user] = /^User=(\S+)$/m.exec(unit) ?? [];
  expect(steps).toMatch(new RegExp(`^useradd --system .* ${user}$`, "m"));
  expect(steps).toContain(`sudo -u ${user} wamid-relay doctor`);
  expect(unit).not.toMatch(/^(?:DynamicUser|LoadCredential)=/m);
  for (const proxy of ["nginx/wamid-relay.conf", "caddy/Caddyfile"]) {
    expect(read(proxy)).toContain(`127.0.0.1:${server.port}`);
    expect(read(proxy)).toContain(`127.0.0.1:${server.control?.port}`);
  }
});

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec: {
    readonly replicas: number;
    readonly minAvailable: number;
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: {
        readonly securityContext: object;
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly {
          readonly args: readonly string[];
          readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
          readonly securityContext: object;
          readonly [probe: string]: unknown;
        }[];
      };
    };
  };
}

const manifests = parseAllDocuments(read("kubernetes/relay.yaml")).map(
  (document) => document.toJS() as Manifest,
);
const of = (kind: string) => manifests.filter((each) => each.kind === kind);

test("the Kubernetes manifests run both roles as a numeric user with disruption budgets", () => {
  const settings = of("ConfigMap")[0]?.data?.["relay.yaml"] as string;
  const { server, storage } = parseSettings(
    settings.replaceAll("/run/secrets/wamid-relay", secrets),
    "relay.yaml",
    {},
  );
  expect(storage.driver).toBe("postgres");
  const deployments = of("Deployment");
  expect(deployments.map(({ spec }) => spec.template.spec.containers[0]?.args[2])).toEqual([
    "receive",
    "work",
  ]);
  const user = /^USER (\d+):/m.exec(readPage("Dockerfile"))?.[1];
  for (const { spec } of deployments) {
    const { template, selector, replicas } = spec;
    expect(template.metadata.labels).toMatchObject(selector.matchLabels);
    expect(template.spec.securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: Number(user),
    });
    expect(template.spec.terminationGracePeriodSeconds * 1000).toBeGreaterThan(
      server.shutdownTimeout,
    );
    const [container] = template.spec.containers;
    expect(container?.ports.map(({ containerPort }) => containerPort)).toEqual([
      server.port,
      server.control?.port,
    ]);
    expect(container?.securityContext).toMatchObject({
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
    });
    const budget = of("PodDisruptionBudget").find(
      (each) => JSON.stringify(each.spec.selector) === JSON.stringify(selector),
    );
    expect(budget?.spec.minAvailable).toBeLessThan(replicas);
  }
});

test("the probes of Kubernetes ask pages that the public port has", async () => {
  const relay = await startRelayHere();
  for (const { spec } of of("Deployment")) {
    for (const probe of ["readinessProbe", "livenessProbe", "startupProbe"]) {
      const container = spec.template.spec.containers[0] as Readonly<Record<string, unknown>>;
      const { httpGet } = container[probe] as { httpGet: { path: string; port: string } };
      expect([probe, httpGet.port, (await relay.ask(httpGet.path)).status]).toEqual([
        probe,
        "http",
        200,
      ]);
    }
  }
});
