import { spawnSync } from "node:child_process";
import {
  cpSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type SeededFault, seededFaults } from "./faults.ts";

/*
 * Seeds each fault in a copy of the project and runs the tests that must catch it: `npm run
 * test:faults [-- <text>]`, with a text for the faults whose name contains it. Exits with 1 when a
 * fault survives.
 */

const root = new URL("../..", import.meta.url).pathname;
const wanted = process.argv[2] ?? "";
const faults = seededFaults.filter(({ name }) => name.includes(wanted));
if (faults.length === 0) {
  console.error(`no seeded fault has "${wanted}" in its name`);
  process.exit(1);
}
const copy = mkdtempSync(join(tmpdir(), "wamid-relay-faults-"));

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly output: string;
}

/** Files that fail to load count as no failed test: only a test may catch a fault. */
function runTests(files: readonly string[], bail: boolean): Counts {
  const report = join(copy, "report.json");
  rmSync(report, { force: true });
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [
      "node_modules/vitest/vitest.mjs",
      "run",
      "--config",
      "test/vitest.config.ts",
      "--project",
      "everyday",
      "--reporter=json",
      `--outputFile=${report}`,
      ...(bail ? ["--bail=1"] : []),
      ...files,
    ],
    {
      cwd: copy,
      encoding: "utf8",
      env: { ...process.env, NODE_COMPILE_CACHE: join(copy, "cache") },
    },
  );
  const output = `${stdout}${stderr}`;
  try {
    const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(report, "utf8")) as {
      readonly numPassedTests: number;
      readonly numFailedTests: number;
    };
    return { passed: numPassedTests, failed: numFailedTests, output };
  } catch {
    return { passed: 0, failed: 0, output };
  }
}

function seed({ find, put }: SeededFault): () => void {
  const paths = globSync("src/**/*.{ts,js}", { cwd: copy }).map((path) => join(copy, path));
  const found = paths.filter((path) => readFileSync(path, "utf8").includes(find));
  const [path] = found;
  if (path === undefined || found.length > 1)
    throw new Error(`${found.length} files of src have the text of this fault: ${find}`);
  const before = readFileSync(path, "utf8");
  writeFileSync(
    path,
    before.replace(find, () => put),
  );
  return () => writeFileSync(path, before);
}

try {
  for (const part of [
    "src",
    "test",
    "config",
    "docs",
    "bench",
    "deploy",
    ".ci",
    "package.json",
    "README.md",
    "tsconfig.json",
  ])
    cpSync(join(root, part), join(copy, part), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  const files = [...new Set(faults.flatMap(({ tests }) => tests))];
  const whole = runTests(files, false);
  if (whole.failed > 0 || whole.passed === 0) {
    console.error(
      `${whole.output}\nthe tests fail without a fault (${whole.failed} failed, ${whole.passed} passed)`,
    );
    process.exitCode = 1;
  } else {
    const survived: SeededFault[] = [];
    for (const fault of faults) {
      const restore = seed(fault);
      const { failed } = runTests(fault.tests, true);
      restore();
      if (failed === 0) survived.push(fault);
      console.log(`${failed === 0 ? "SURVIVED" : "caught  "}  ${fault.name}`);
    }
    console.log(`${faults.length - survived.length} of ${faults.length} faults were caught`);
    if (survived.length > 0) process.exitCode = 1;
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
