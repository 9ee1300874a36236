import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The longest files of a run, the longest first. In a fresh clone Vitest orders by size, and the longest would run alone at the end. */
export const longest = [
  "test/bench/benches.test.ts",
  "test/e2e/postgres-faults.test.ts",
  "test/e2e/install.test.ts",
  "test/e2e/console/pages.test.ts",
  "test/e2e/clone.test.ts",
  "test/e2e/console/real-conditions.test.ts",
  "test/e2e/postgres-failover.test.ts",
  "test/e2e/postgres-processes.test.ts",
  "test/e2e/meta-kill9.test.ts",
  "test/e2e/postgres-shards.test.ts",
  "test/e2e/crash-backlog.test.ts",
  "test/e2e/crontab.test.ts",
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const found = longest.findIndex((file) => moduleId.endsWith(`/${file}`));
      return found === -1 ? longest.length : found;
    };
    return (await super.sort(files)).sort((a, b) => place(a) - place(b));
  }
}
