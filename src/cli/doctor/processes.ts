import type { Presence } from "../../store/postgres/presence.ts";
import { type Finding, ok, warn } from "./finding.ts";

/** Without a worker, accepted events wait. */
export function judgeProcesses(presences: readonly Presence[]): Finding {
  const check = "processes";
  const count = (role: Presence["role"]): number => presences.filter((presence) => presence.role === role).length;
  const receiving = count("receive") + count("both");
  const working = count("work") + count("both");
  if (receiving + working === 0) return warn(check, "none is connected", "wamid-relay serve");
  const text = `${receiving} receive, ${working} work`;
  if (working === 0) return warn(check, `${text}: events are accepted, and nothing is delivered`, "wamid-relay serve --role work");
  if (receiving === 0) return warn(check, `${text}: no event can come in`, "wamid-relay serve --role receive");
  return ok(check, text);
}

/** A finding when processes of different versions share a store. */
export function judgeVersions(presences: readonly Presence[]): Finding[] {
  const running = presences.filter(({ role }) => role !== "command");
  const versions = [...new Set(running.map(({ version }) => version))].toSorted();
  if (versions.length < 2) return [];
  const text = versions.map((version) => {
    const processes = running.filter((presence) => presence.version === version).map(({ pid, host }) => `process ${pid} on ${host}`);
    return `${version} (${processes.join(", ")})`;
  });
  return [warn("processes", `run different versions: ${text.join("; ")}`, "update and restart the older ones")];
}
