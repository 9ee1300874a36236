import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * The longest files, the longest first: those of `npm run test:rest`, then those of `npm test`. In
 * a fresh clone Vitest orders by size, so that some of these, which import their tests, would run
 * alone at the end.
 */
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
  "test/smoke/demo.test.ts",
  "test/contract/both-stores.test.ts",
  "test/contract/postgres-store.test.ts",
  "test/contract/one-store.test.ts",
  "test/integration/listen/live.test.ts",
  "test/integration/postgres/route-leases.test.ts",
  "test/contract/sqlite-store.test.ts",
  "test/integration/listen/surviving.test.ts",
  "test/integration/http/limited-tokens.test.ts",
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
