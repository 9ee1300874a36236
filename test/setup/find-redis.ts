import { execFile } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";

const advice = 'install Redis 7 so that "redis-server" is on the PATH (Debian: apt-get install redis-server; macOS: brew install redis)';

/**
 * Run under `flock`, so that of two test workers one installs and the other then finds it installed.
 * The package starts a service unless policy-rc.d forbids it; ours exists only for the length of the installation,
 * and one that is already there (images have one) stays as it is.
 */
const installScript = `
set -e
if command -v redis-server >/dev/null; then exit 0; fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\\nexit 101\\n' > "$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT INT TERM
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 redis-server
`;

/**
 * Path of a `redis-server` that can be run. On Debian as root it is installed when missing (quietly, once); no npm
 * package ships one (FACTS.md, "Node and npm"). Throws an error of one line that says what to install.
 */
export async function findRedisServer(env: NodeJS.ProcessEnv = process.env, mayInstall = isRootOnDebian()): Promise<string> {
  const found = findOnPath("redis-server", env);
  if (found !== null) return found;
  if (!mayInstall) throw new Error(`redis-server was not found: ${advice}`);
  await install(env);
  const installed = findOnPath("redis-server", env);
  if (installed === null) throw new Error(`redis-server was installed but is not on the PATH: ${advice}`);
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

function install(env: NodeJS.ProcessEnv): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const args = ["-w", "300", "/run/wamid-relay-redis-install.lock", "sh", "-c", installScript];
  execFile("flock", args, { env, timeout: 300_000 }, (error, _stdout, stderr) => {
    if (error === null) return resolve();
    const said = stderr.trim().split("\n").at(-1) ?? "";
    reject(new Error(`redis-server could not be installed (${said === "" ? error.code : said}): ${advice}`));
  });
  return promise;
}
