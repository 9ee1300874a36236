import { Counter, Gauge, Histogram, type Registry } from "@prometheus-io/client";

/** How to combine the values of several processes in a query. */
export type Combine = "sum" | "max" | "min" | "count by (version)";

interface DescribedMetric {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly combine: Combine;
}

export type Maker = ReturnType<typeof createMaker>;

/** Makes the metrics of a registry, and describes them. */
export function createMaker(registry: Registry) {
  const registers = [registry];
  const described: DescribedMetric[] = [];
  const options = <Label extends string>(
    type: DescribedMetric["type"],
    name: string,
    help: string,
    labelNames: readonly Label[],
    combine: Combine,
  ) => {
    described.push({ name, type, help, labelNames, combine });
    return { name, help, labelNames, registers };
  };
  const counter = <Label extends string = never>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter(options("counter", name, help, labelNames, "sum"));
  const gauge = <Label extends string = never>(name: string, help: string, combine: Combine, labelNames: readonly Label[] = []) =>
    new Gauge(options("gauge", name, help, labelNames, combine));
  const histogram = <Label extends string = never>(name: string, help: string, buckets: number[], labelNames: readonly Label[] = []) =>
    new Histogram({ ...options("histogram", name, help, labelNames, "sum"), buckets });

  return { described, counter, gauge, histogram };
}
