import { defineConfig } from "vitest/config";
import { ClosingLine } from "./setup/closing-line.ts";

/** Folders of tests that take long: crash loops, whole commands, short benches. */
const long = ["test/e2e/**", "test/bench/**"];

/**
 * `npm test` runs the project `everyday` without the tests tagged `slow`; `npm run test:all` runs everything.
 * The deadlines are for a machine ten times slower than ours: a hang fails late, and a slow machine never.
 */
export default defineConfig({
  root: new URL("..", import.meta.url).pathname,
  test: {
    reporters: ["default", new ClosingLine()],
    // For two cores: tests wait for processes, disks and Redis half of the time.
    maxWorkers: 3,
    // A process of its own for each file costs a second of processor time; no test mocks modules or timers.
    isolate: false,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    tags: [{ name: "slow", description: "Takes over three seconds; its first line says why. Runs in `npm run test:all`." }],
    projects: [
      { extends: true, test: { name: "everyday", include: ["test/**/*.test.ts"], exclude: long } },
      {
        extends: true,
        test: { name: "long", include: long.map((folder) => `${folder}/*.test.ts`), globalSetup: "test/setup/console.ts" },
      },
    ],
  },
});
