import { defineConfig } from "vitest/config";
import { ClosingLine } from "./setup/closing-line.ts";

export default defineConfig({
  root: new URL("..", import.meta.url).pathname,
  test: {
    include: ["test/**/*.test.ts"],
    reporters: ["default", new ClosingLine()],
    // The machines that run this have two cores, and many tests start processes of their own.
    maxWorkers: 2,
    // A process of its own for each file costs a second of processor time; no test mocks modules or timers.
    isolate: false,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
