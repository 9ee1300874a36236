import type { Reporter, TestModule } from "vitest/node";

/** Ends the output with a line any CI can read: `N passed, N failed`. */
export class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    let passed = 0;
    // A file that does not load, and an error outside any test, are failures too.
    let failed = errors.length;
    let skipped = 0;
    let left = 0;
    for (const module of modules) {
      if (module.state() === "failed" && [...module.children.allTests("failed")].length === 0) failed += 1;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") passed += 1;
        else if (state === "failed") failed += 1;
        else if (test.options.tags?.includes("slow") === true) left += 1;
        else skipped += 1;
      }
    }
    if (left > 0) process.stdout.write(`\nTagged slow, left to npm run test:all: ${left}\n`);
    process.stdout.write(`\n${passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}\n`);
  }
}
