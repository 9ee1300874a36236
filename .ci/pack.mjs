// Builds the package and writes its tarball, `wamid-relay-<version>.tgz`.
//
//   npm run pack                        into this folder
//   npm run pack -- --out <folder>      into another folder
//   npm run pack -- --no-check          without checking types
//   npm run pack -- --dist <folder>     with what "npm run build" wrote there
//
// The tarball has its own package.json. The clone's would install the Node of development over the
// user's own, and its command and exports are sources, so that "npm link" and "npx ." need no
// build.
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const root = fileURLToPath(new URL("..", import.meta.url));
const {
  out,
  "no-check": noCheck,
  dist,
} = parseArgs({
  options: {
    out: { type: "string", default: root },
    "no-check": { type: "boolean", default: false },
    dist: { type: "string" },
  },
}).values;
const folder = mkdtempSync(join(tmpdir(), "wamid-relay-pack-"));

try {
  if (dist !== undefined) cpSync(dist, join(folder, "dist"), { recursive: true });
  else
    execFileSync(
      process.execPath,
      [
        join(root, ".ci/build.mjs"),
        "--out",
        join(folder, "dist"),
        ...(noCheck ? ["--no-check"] : []),
      ],
      { stdio: "inherit" },
    );
  for (const name of ["config", "deploy", "docs", "README.md", "LICENSE", "CHANGELOG.md"]) {
    if (existsSync(join(root, name)))
      cpSync(join(root, name), join(folder, name), { recursive: true });
  }
  const { published: instead, ...clone } = JSON.parse(
    readFileSync(join(root, "package.json"), "utf8"),
  );
  const published = { ...clone, ...instead, files: readdirSync(folder) };
  for (const key of ["private", "scripts", "devDependencies", "optionalDependencies"])
    delete published[key];
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(published, null, 2)}\n`);

  // npm's own script, because Windows starts no "npm" without a shell. That of pnpm answers otherwise.
  const { npm_execpath: script = "" } = process.env;
  const [command, ...args] = script.endsWith("npm-cli.js") ? [process.execPath, script] : ["npm"];
  const packed = execFileSync(
    command,
    [...args, "pack", "--json", "--pack-destination", resolve(out)],
    {
      cwd: folder,
      stdio: ["ignore", "pipe", "ignore"],
      encoding: "utf8",
    },
  );
  console.log(join(resolve(out), JSON.parse(packed)[0].filename));
} finally {
  rmSync(folder, { recursive: true });
}
