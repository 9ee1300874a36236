import { expect, test } from "vitest";
import { parse } from "yaml";
import { attentionKinds } from "../../../src/model/attention.ts";
import { auditRules } from "../../../src/model/audit.ts";
import { namesIn, readPage, rowsOf } from "../../harness/pages.ts";

const explain = readPage("docs/how-to/explain-an-event.md");

test("explain-an-event.md lists the rules of the audit as the code has them", () => {
  expect(rowsOf(explain, "rule | broken by")).toEqual(
    Object.entries(auditRules).map(([rule, meaning]) => [`\`${rule}\``, meaning]),
  );
});

test("recover-from-an-outage.md quotes what explain prints as the next step", () => {
  const printed = readPage("src/model/words.ts");
  const quoted = rowsOf(
    readPage("docs/how-to/recover-from-an-outage.md"),
    "`next` | what it means | to continue now",
  ).map(([text = ""]) => text);
  expect(quoted).toHaveLength(5);
  for (const text of quoted) expect(printed).toContain(text);
});

test("explain-an-event.md has every reason of routing.md", () => {
  const reasons = namesIn(readPage("docs/concepts/routing.md"), "reason | criterion").map((name) =>
    name.replace(/: .*/, ": …"),
  );
  expect(reasons.length).toBeGreaterThan(10);
  expect(
    new Set(namesIn(explain, "reason | the route does not take it because of | usual cause")),
  ).toEqual(new Set(reasons));
});

test("monitor-and-alert.md lists each alert of the rules, the critical ones first", () => {
  const page = readPage("docs/how-to/monitor-and-alert.md");
  const rules = parse(readPage("deploy/prometheus/wamid-relay.rules.yaml")) as {
    readonly groups: readonly [
      {
        readonly rules: readonly {
          readonly alert: string;
          readonly labels: { readonly severity: string };
        }[];
      },
    ];
  };
  for (const [title, severity] of [
    ["## Critical alerts", "critical"],
    ["## Warnings", "warning"],
  ] as const) {
    const alerts = rules.groups[0].rules
      .filter(({ labels }) => labels.severity === severity)
      .map(({ alert }) => alert);
    expect(alerts.length).toBeGreaterThan(5);
    const part = page.slice(page.indexOf(title));
    expect(namesIn(part, "alert | what happens | what to do").toSorted()).toEqual(
      alerts.toSorted(),
    );
  }
});

const tracing = readPage("docs/how-to/trace-requests.md");

test("trace-requests.md lists each span and attribute of the code", () => {
  const source = readPage("src/app/tracing.ts");
  const spans = [...source.matchAll(/\bname: "(\w+)"/g)].map(([, name]) => name);
  const attributes = [...source.matchAll(/"((?:relay|http|error)\.[\w.]+)"/g)].map(
    ([, name]) => name,
  );
  expect(spans.length).toBeGreaterThan(4);
  expect(attributes.length).toBeGreaterThan(15);
  expect(new Set(namesIn(tracing, "span | kind | parent | covers"))).toEqual(new Set(spans));
  expect(new Set(namesIn(tracing, "attribute | holds"))).toEqual(new Set(attributes));
});

test("trace-requests.md has the limits of the code", () => {
  const limits = readPage("src/observe/traces.ts");
  expect(limits).toContain("const mostWaiting = 4096;");
  expect(limits).toContain("const exportEveryMs = 1_000;");
  expect(limits).toContain("const exportWithinMs = 3_000;");
  for (const text of ["4,096", "every second", "3 s"]) expect(tracing).toContain(text);
});

const hosts = readPage("docs/how-to/run-on-several-hosts.md");

test("run-on-several-hosts.md has the connections of a process, and each line of doctor about PostgreSQL", () => {
  const [, connections] =
    /const connectionsOfProcess = (\d+);/.exec(readPage("src/model/database.ts")) ?? [];
  expect(hosts).toContain(`\`max_connections\`: ${connections} per relay process`);
  const lines = attentionKinds.filter((kind) => kind.startsWith("database-"));
  expect(namesIn(hosts, "line of `doctor` | fails or warns when")).toEqual(
    expect.arrayContaining(lines),
  );
  expect(readPage("docs/concepts/engines.md")).toContain("| connections | ten per process |");
});
