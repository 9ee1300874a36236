// Names in package-lock.json every optional platform package that a locked package lists.
//
// A registry mirror may hold only the platforms its users run; npm then leaves the others out of
// the lockfile it writes, and "npm ci" refuses that lockfile everywhere ("Missing: … from lock
// file"). What is added says version and platform, so that npm skips it elsewhere and can fetch it
// there.
//
//   node .ci/complete-lock.mjs          completes the file; "npm run lock" runs it after npm
//   node .ci/complete-lock.mjs --check  exit code 1 when something is missing, or a download
// address is in it
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(file, "utf8"));
const systems = [
  "aix",
  "android",
  "darwin",
  "freebsd",
  "linux",
  "netbsd",
  "openbsd",
  "openharmony",
  "sunos",
  "win32",
];
const processors = [
  "arm",
  "arm64",
  "ia32",
  "loong64",
  "mips64el",
  "ppc64",
  "riscv64",
  "s390x",
  "x64",
];

const missing = {};
for (const [path, entry] of Object.entries(lock.packages)) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const place = `node_modules/${name}`;
    if (place in lock.packages || `${path}/${place}` in lock.packages) continue;
    const words = name.split(/[/-]/);
    const os = words.filter((word) => systems.includes(word));
    const cpu = words.filter((word) => processors.includes(word));
    if (os.length !== 1 || cpu.length !== 1)
      throw new Error(
        `cannot tell the platform of ${name} from its name: add it to package-lock.json by hand`,
      );
    missing[place] = {
      version,
      cpu,
      ...(entry.dev ? { dev: true } : {}),
      ...(words.at(-1) === "musl" ? { libc: ["musl"] } : {}),
      optional: true,
      os,
    };
  }
}

const names = Object.keys(missing);
if (process.argv[2] === "--check") {
  const addresses = Object.values(lock.packages).filter((entry) => "resolved" in entry).length;
  if (names.length > 0)
    console.error(`package-lock.json lacks ${names.join(", ")}; run: npm run lock`);
  if (addresses > 0)
    console.error(`package-lock.json holds ${addresses} download addresses; run: npm run lock`);
  process.exitCode = names.length + addresses > 0 ? 1 : 0;
} else {
  lock.packages = Object.fromEntries(
    Object.entries({ ...lock.packages, ...missing }).sort(([a], [b]) => (a < b ? -1 : 1)),
  );
  writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
  console.error(`${names.length} platform packages added to package-lock.json`);
}
