import { execFile } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";

interface Program {
  readonly command: string;
  /** Of Debian. */
  readonly package: string;
  /** What to do where it may not be installed. */
  readonly advice: string;
}

const redis: Program = {
  command: "redis-server",
  package: "redis-server",
  advice: 'install Redis 7 so that "redis-server" is on the PATH (Debian: apt-get install redis-server; macOS: brew install redis)',
};

/**
 * Run under `flock`, so that of two test workers one installs and the other then finds it installed.
 * The package starts a service unless policy-rc.d forbids it; ours exists only for the length of the installation,
 * and one that is already there (images have one) stays as it is.
 */
const installScript = `
set -e
if command -v "$1" >/dev/null; then exit 0; fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\\nexit 101\\n' > "$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT INT TERM
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 "$2"
`;

/**
 * Path of a `redis-server` that can be run. On Debian as root it is installed when missing (quietly, once); no npm
 * package ships one (FACTS.md, "Node and npm"). Throws an error of one line that says what to install.
 */
export function findRedisServer(env: NodeJS.ProcessEnv = process.env, mayInstall = isRootOnDebian()): Promise<string> {
  return find(redis, env, mayInstall);
}

/** The same for a program of a Debian package, by default of its own name. */
export function findProgram(
  command: string,
  { package: name = command, env = process.env, mayInstall = isRootOnDebian() }: ProgramOptions = {},
): Promise<string> {
  return find(
    { command, package: name, advice: `install it so that it is on the PATH (Debian: apt-get install ${name})` },
    env,
    mayInstall,
  );
}

interface ProgramOptions {
  readonly package?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly mayInstall?: boolean;
}

async function find(program: Program, env: NodeJS.ProcessEnv, mayInstall: boolean): Promise<string> {
  const { command, advice } = program;
  const found = findOnPath(command, env);
  if (found !== null) return found;
  if (!mayInstall) throw new Error(`${command} was not found: ${advice}`);
  await install(program, env);
  const installed = findOnPath(command, env);
  if (installed === null) throw new Error(`${command} was installed but is not on the PATH: ${advice}`);
  return installed;
}

function findOnPath(name: string, env: NodeJS.ProcessEnv): string | null {
  for (const folder of (env["PATH"] ?? "").split(delimiter)) {
    if (folder === "") continue;
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not here; the next folder.
    }
  }
  return null;
}

/** Debian itself or a child of it: both have apt and a package of this name. */
function isRootOnDebian(): boolean {
  if (process.getuid?.() !== 0) return false;
  try {
    return /^ID(_LIKE)?=.*\bdebian\b/m.test(readFileSync("/etc/os-release", "utf8"));
  } catch {
    return false;
  }
}

function install({ command, package: name, advice }: Program, env: NodeJS.ProcessEnv): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // One lock for all: apt has one itself, and does not wait for it everywhere.
  const args = ["-w", "300", "/run/wamid-relay-install.lock", "sh", "-c", installScript, "install", command, name];
  execFile("flock", args, { env, timeout: 300_000 }, (error, _stdout, stderr) => {
    if (error === null) return resolve();
    const said = stderr.trim().split("\n").at(-1) ?? "";
    reject(new Error(`${command} could not be installed (${said === "" ? error.code : said}): ${advice}`));
  });
  return promise;
}
