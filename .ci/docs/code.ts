import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Fault, type Page, root, walk } from "./pages.ts";

const run = promisify(execFile);

/** Errors of TypeScript that an example may have: names that it leaves to the reader. */
const undeclared = new Set(["2304", "2552", "18004"]);

/**
 * Errors of TypeScript that JavaScript may not have: modules, exports, members and options that do
 * not exist.
 */
const missing = new Set(["2305", "2307", "2339", "2353", "2551", "2561", "2614", "2724"]);

/**
 * Type errors of the `js` and `ts` blocks of all pages, among them imports and members that do not
 * exist.
 */
export async function checkCode(pages: readonly Page[]): Promise<Fault[]> {
  const parent = join(root, "node_modules/.cache");
  mkdirSync(parent, { recursive: true });
  // Below node_modules, so that the packages that examples import are found.
  const folder = mkdtempSync(join(parent, "docs-"));
  try {
    const places = new Map<string, { readonly path: string; readonly line: number }>();
    for (const { path, tree } of pages) {
      for (const { type, lang, value = "", loc } of walk(tree)) {
        if (type !== "CodeBlock" || (lang !== "js" && lang !== "ts")) continue;
        const name = `block-${places.size}.m${lang}`;
        places.set(name, { path, line: loc.start.line });
        // An example without imports is a module too, or examples would share their names.
        writeFileSync(join(folder, name), `${value}\nexport {};\n`);
      }
    }
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(configOf([...places.keys()])));
    return await compile(folder, places);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const configOf = (files: readonly string[]) => ({
  compilerOptions: {
    noEmit: true,
    checkJs: true,
    allowJs: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    strictNullChecks: true,
    strictFunctionTypes: true,
    target: "es2024",
    lib: ["es2024", "esnext.disposable"],
    module: "nodenext",
    types: ["node"],
    paths: {
      "wamid-relay/client": [join(root, "src/client/relay-client.ts")],
      "wamid-relay/sandbox": [join(root, "src/sandbox/start-sandbox.ts")],
    },
  },
  files,
});

async function compile(
  folder: string,
  places: ReadonlyMap<string, { readonly path: string; readonly line: number }>,
): Promise<Fault[]> {
  const tsc = join(root, "node_modules/typescript-7/bin/tsc");
  const { stdout } = await run(
    process.execPath,
    [tsc, "-p", folder, "--pretty", "false", "--checkers", "1"],
    { cwd: folder },
  ).catch((error: { readonly stdout: string }) => error);
  return [...stdout.matchAll(/^([\w./-]+)\((\d+),\d+\): error TS(\d+): (.+)$/gm)].flatMap(
    ([, name = "", line = "0", code = "", text = ""]) => {
      const place = places.get(name);
      // The sources that examples import are checked with settings of their own.
      if (place === undefined || undeclared.has(code)) return [];
      // JavaScript does not narrow a union before it reads a member.
      if (name.endsWith(".mjs") && (!missing.has(code) || text.includes(" | "))) return [];
      return [{ path: place.path, line: place.line + Number(line), message: text }];
    },
  );
}
