import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import type { TestProject } from "vitest/node";
import { findOnPath } from "./find-program.ts";

/** Programs that a project's tests start, the first that is found, with their Debian packages. */
const programs: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  everyday: { "redis-server": "redis-server" },
  long: {
    "redis-server": "redis-server",
    "chromium-headless-shell chromium": "chromium-headless-shell",
    prometheus: "prometheus",
    promtool: "prometheus",
    haproxy: "haproxy",
    nginx: "nginx",
    caddy: "caddy",
    "systemd-analyze": "systemd",
    pg_dump: "postgresql-client",
  },
};

/**
 * Run under `flock`, because apt does not wait for another one everywhere. Packages start their
 * services unless policy-rc.d forbids it; ours exists only for the length of the installation, and
 * one that is already there (images have one) stays.
 */
const installScript = `
set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\\nexit 101\\n' > "$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT INT TERM
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
`;

/**
 * Installs the missing programs once, before the first test, on Debian as root. Elsewhere, and when
 * that fails, the tests that need one say what to install.
 */
export function setup({ name }: TestProject): void {
  const missing = Object.entries(programs[name] ?? {}).filter(([names]) =>
    names.split(" ").every((name) => findOnPath(name) === null),
  );
  if (missing.length === 0 || !isRootOnDebian()) return;
  const packages = [...new Set(missing.map(([, debian]) => debian))];
  console.log(`Installing ${packages.join(", ")}`);
  try {
    const args = [
      "-w",
      "300",
      "/run/wamid-relay-install.lock",
      "sh",
      "-c",
      installScript,
      "install",
      ...packages,
    ];
    execFileSync("flock", args, { stdio: ["ignore", "ignore", "inherit"], timeout: 600_000 });
  } catch (error) {
    console.error(`Not installed: ${(error as Error).message.split("\n")[0]}`);
  }
}

/** Debian itself or a child of it: both have apt and packages of these names. */
function isRootOnDebian(): boolean {
  if (process.getuid?.() !== 0) return false;
  try {
    return /^ID(_LIKE)?=.*\bdebian\b/m.test(readFileSync("/etc/os-release", "utf8"));
  } catch {
    return false;
  }
}
