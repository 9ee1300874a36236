import type { Reporter, TestModule } from "vitest/node";
import { testSeed } from "./seed.ts";

/**
 * Starts the output with the seed. Ends it with what repeats failures, and a line any CI can read:
 * `N passed, N failed`.
 */
export class ClosingLine implements Reporter {
  onInit(): void {
    process.stdout.write(`\nTEST_SEED=${testSeed}\n`);
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    let passed = 0;
    // A file that does not load, and an error outside any test, are failures too.
    let failed = errors.length;
    let skipped = 0;
    let left = 0;
    for (const module of modules) {
      if (module.state() === "failed" && [...module.children.allTests("failed")].length === 0)
        failed += 1;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") passed += 1;
        else if (state === "failed") failed += 1;
        else if (test.options.tags?.includes("slow") === true) left += 1;
        else skipped += 1;
      }
    }
    const failing = modules
      .filter((module) => module.state() === "failed")
      .map(({ relativeModuleId }) => relativeModuleId);
    if (failing.length > 0)
      process.stdout.write(`\nRepeat with:\n  ${repeatLines(failing, testSeed).join("\n  ")}\n`);
    if (left > 0) process.stdout.write(`\nTagged slow, left to npm run test:all: ${left}\n`);
    process.stdout.write(
      `\n${passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}\n`,
    );
  }
}

/** The commands that run these files again, with the same seed. */
export function repeatLines(files: readonly string[], seed: number): string[] {
  return files.map(
    (file) => `TEST_SEED=${seed} npx vitest run --config test/vitest.config.ts ${file}`,
  );
}
