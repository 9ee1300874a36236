import { randomInt } from "node:crypto";
import { defineConfig } from "vitest/config";

const root = new URL("..", import.meta.url).pathname;

// All of this is for the workers and the processes they start, too.
if (process.env["TEST_SEED"] === "random") process.env["TEST_SEED"] = String(randomInt(2 ** 31));
// Without it, each worker, thread and process strips the types of all files anew.
process.env["NODE_COMPILE_CACHE"] ??= `${root}node_modules/.cache/tests`;
const { ClosingLine } = await import("./setup/closing-line.ts");
const { LongestFirst } = await import("./setup/longest-first.ts");

/** Crash loops, whole commands and short benches. */
const long = ["test/e2e/**/*.test.ts", "test/bench/**/*.test.ts"];

const always = ["test/setup/programs.ts", "test/setup/postgres-run.ts"];

/**
 * `npm test` runs the project `everyday` without the tests tagged `slow`, `npm run test:rest` those
 * tagged so of both projects, `npm run test:all` everything with a random seed. The deadlines are
 * for a machine ten times slower than ours: a hang fails late, and a slow machine never.
 */
export default defineConfig({
  root,
  test: {
    reporters: ["default", new ClosingLine()],
    // For two cores, which the slow tests keep busy. Those of `npm test` wait for processes, disks
    // and databases half of the time: it has one more.
    maxWorkers: 3,
    // A process of its own for each file costs a second of processor time; no test mocks modules or
    // timers.
    isolate: false,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    setupFiles: "test/setup/fast-check.ts",
    sequence: { sequencer: LongestFirst },
    tags: [
      {
        name: "slow",
        description:
          "Takes over three seconds; its first line says why. Runs in `npm run test:all`.",
      },
    ],
    projects: [
      {
        extends: true,
        test: {
          name: "everyday",
          include: ["test/**/*.test.ts"],
          exclude: long,
          globalSetup: always,
        },
      },
      // The benches of one file run two at a time: one after the other, they would outlast all
      // other files.
      {
        extends: true,
        test: {
          name: "long",
          include: long,
          maxConcurrency: 2,
          globalSetup: [...always, "test/setup/console.ts"],
        },
      },
    ],
  },
});
