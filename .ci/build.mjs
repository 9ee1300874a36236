// Compiles src into dist.
//
//   node .ci/build.mjs                  into dist
//   node .ci/build.mjs --out <folder>   into another folder
//   node .ci/build.mjs --no-check       without checking types, in half the time
//   node .ci/build.mjs --only-console   the console alone, unless it is newer than its sources
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const root = fileURLToPath(new URL("..", import.meta.url));
const {
  out,
  "no-check": noCheck,
  "only-console": onlyConsole,
} = parseArgs({
  options: {
    out: { type: "string", default: join(root, "dist") },
    "no-check": { type: "boolean", default: false },
    "only-console": { type: "boolean", default: false },
  },
}).values;
const dist = resolve(out);
if (onlyConsole) {
  if (!isConsoleCurrent()) await buildConsole();
  process.exit();
}
const scratch = mkdtempSync(join(tmpdir(), "wamid-relay-build-"));

/** What users import. Only their types are published. */
const entries = ["client/relay-client", "sandbox/start-sandbox"];

rmSync(dist, { recursive: true, force: true });
try {
  compile("code", { outDir: dist, noCheck }, { include: [join(root, "src")] });

  const types = join(scratch, "types");
  compile(
    "types",
    { outDir: types, noCheck: true, declaration: true, emitDeclarationOnly: true },
    { files: entries.map(source) },
  );
  for (const entry of entries) copyReachable(entry, [".d.ts"], types, dist);

  // `require("wamid-relay/client")` also works on Node 20, which cannot require an ES module.
  const commonjs = join(scratch, "cjs");
  const format = { module: "commonjs", moduleResolution: "bundler", verbatimModuleSyntax: false };
  compile(
    "cjs",
    { ...format, outDir: commonjs, noCheck: true, declaration: true },
    { files: [source("client/relay-client")] },
  );
  copyReachable("client/relay-client", [".js", ".d.ts"], commonjs, join(dist, "cjs"));
  writeFileSync(join(dist, "cjs/package.json"), '{ "type": "commonjs" }\n');
  await buildConsole();
} finally {
  rmSync(scratch, { recursive: true });
}

/**
 * The console imports from other folders of src too. A folder is newer after a file in it was
 * removed.
 */
function isConsoleCurrent() {
  const page = join(dist, "console/index.html");
  if (!existsSync(page)) return false;
  const builtAt = statSync(page).mtimeMs;
  return readdirSync(join(root, "src"), { recursive: true }).every(
    (path) => statSync(join(root, "src", path)).mtimeMs <= builtAt,
  );
}

async function buildConsole() {
  const { build } = await import("vite");
  const config = { configFile: join(root, "src/console/vite.config.ts"), logLevel: "warn" };
  await build({ ...config, build: { outDir: join(dist, "console") } });
}

function source(entry) {
  return join(root, `src/${entry}.ts`);
}

/** Runs the compiler with the settings of src/tsconfig.json and these. */
function compile(name, compilerOptions, input) {
  const project = join(scratch, `${name}.json`);
  const fixed = { rootDir: join(root, "src"), typeRoots: [join(root, "node_modules/@types")] };
  writeFileSync(
    project,
    JSON.stringify({
      extends: join(root, "src/tsconfig.json"),
      compilerOptions: { ...fixed, ...compilerOptions },
      include: [],
      ...input,
    }),
  );
  try {
    execFileSync(
      process.execPath,
      [join(root, "node_modules/typescript-7/bin/tsc"), "-p", project],
      { stdio: "inherit" },
    );
  } catch {
    process.exit(1);
  }
}

/**
 * Copies the files that the entry point imports, itself included. Declarations name `.js` files,
 * which every TypeScript finds.
 */
function copyReachable(entry, endings, from, to) {
  for (const ending of endings) {
    const copied = new Set();
    const copy = (file) => {
      if (copied.has(file)) return;
      copied.add(file);
      const text = readFileSync(join(from, file), "utf8").replace(
        /(["']\.[^"'\n]*)\.ts(["'])/g,
        "$1.js$2",
      );
      mkdirSync(dirname(join(to, file)), { recursive: true });
      writeFileSync(join(to, file), text);
      for (const [, path] of text.matchAll(/(?:from |import\(|require\()["'](\.[^"']*)\.js["']/g))
        copy(join(dirname(file), path + ending));
    };
    copy(entry + ending);
  }
}
