import { about, type ConditionName, conditions } from "../../src/model/attention.ts";

interface Alert {
  readonly name: string;
  readonly series: string;
  /** The label that the alert keeps; null: none. */
  readonly by: "route" | "account" | "instance" | null;
  readonly seconds: number;
  readonly severity: "critical" | "warning";
  readonly summary: string;
  /** `subject` in place of the route, account or instance. */
  description(subject: string): string;
}

const alerts: readonly Alert[] = (Object.keys(conditions) as ConditionName[]).map((name) => {
  const { kind, severity, about: of, after, alert, summary, cure, command } = conditions[name];
  const by = of === "store" ? null : of;
  return {
    name: alert,
    series: `relay_attention{kind="${kind}",severity="${severity}"}`,
    by,
    seconds: after,
    severity: severity === "error" ? "critical" : "warning",
    summary,
    description(subject) {
      const text =
        about(cure, subject) +
        (command === undefined ? "" : ` Command: ${about(command, subject)}`);
      return by === null ? text : `${subject}: ${text}`;
    },
  };
});

const text = (...lines: readonly string[]): string =>
  lines.filter((line) => line !== "").join("\n");

/** The rules of deploy/prometheus for what the console lists. */
export function alertRules(): string {
  return alerts
    .map(({ name, series, by, seconds, severity, summary, description }) =>
      text(
        `      - alert: ${name}`,
        "        expr: >-",
        `          max${by === null ? "" : ` by (${by}) `}(${series}) == 1`,
        seconds === 0
          ? ""
          : `        for: ${seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`}`,
        `        labels: { severity: ${severity} }`,
        "        annotations:",
        `          summary: ${summary}`,
        `          description: "${description(`{{ $labels.${by} }}`)}"`,
      ),
    )
    .join("\n");
}

/** Their unit tests: each fires from the first scrape on, and not for another entry. */
export function alertTests(): string {
  return alerts
    .flatMap(({ name, series, by, severity, summary, description }, index) => {
      const labeled = (of: string) => (by === null ? of : of.replace("}", `,${by}="x"}`));
      const other = alerts[(index + 1) % alerts.length]?.series ?? "";
      const fires = text(
        `  - name: ${name} fires`,
        "    interval: 1m",
        "    input_series:",
        `      - { series: '${labeled(series)}', values: "1x200" }`,
        "    alert_rule_test:",
        "      - eval_time: 100m",
        `        alertname: ${name}`,
        "        exp_alerts:",
        `          - exp_labels: { severity: ${severity}${by === null ? "" : `, ${by}: x`} }`,
        "            exp_annotations:",
        `              summary: ${summary}`,
        `              description: "${description("x")}"`,
      );
      const quiet = text(
        `  - name: ${name} stays quiet`,
        "    interval: 1m",
        "    input_series:",
        `      - { series: '${labeled(other)}', values: "1x200" }`,
        "    alert_rule_test:",
        "      - eval_time: 100m",
        `        alertname: ${name}`,
        "        exp_alerts: []",
      );
      return [fires, quiet];
    })
    .join("\n");
}
