import { secretUses } from "../../app/secret-uses.ts";
import type { Settings } from "../../config/schema.ts";
import type { SecretUse } from "../../control/operate.ts";
import type { Proof } from "../../store/tracked-views.ts";
import { type Finding, ok, spanText, warn } from "./finding.ts";

/**
 * A secret that proved nothing for this long, while another one did, is not used any more. The service's document shows
 * no schedule of its retries; a day is longer than those of any service we know of go on without a break.
 */
const quietMs = 24 * 3_600_000;

/** Which secret of each source still proves events, and which is safe to drop. */
export function judgeSecrets(sources: Settings["sources"], proofs: readonly Proof[], now: number): Finding[] {
  const uses = secretUses(sources, proofs).filter(({ place }) => place !== null);
  return Object.keys(sources).flatMap((source) => {
    const own = uses.filter((use) => use.source === source);
    return own.map((use) => {
      const others = own.filter((other) => other !== use).map(({ lastAt }) => lastAt ?? 0);
      return judge(use, own.indexOf(use) === 0, Math.max(0, ...others), now);
    });
  });
}

/** `othersAt`: when another secret of the source last proved something; 0 when none did, or there is no other. */
function judge(use: SecretUse, isFirst: boolean, othersAt: number, now: number): Finding {
  const check = "secrets";
  const name = `${use.source}: ${use.place?.split(".").at(-1)} (${use.secret})`;
  if (use.lastAt === null) {
    if (othersAt === 0) return ok(check, `${name} has proved nothing yet`);
    // The settings name the new one first.
    if (!isFirst) return ok(check, `${name} has never proved anything: safe to drop, unless it is the new one`);
    return warn(
      check,
      `${name} has proved nothing: the service does not sign with it yet`,
      "give it to the service; keep the other one until then",
    );
  }
  const silentMs = now - use.lastAt;
  const sums = `${use.events} events since ${new Date(use.firstAt ?? use.lastAt).toISOString()}`;
  if (othersAt > use.lastAt) {
    if (silentMs >= quietMs)
      return ok(check, `${name} has proved nothing for ${spanText(silentMs)}, while another one did (before that ${sums}): safe to drop`);
    return ok(
      check,
      `${name} proved ${sums}, the last one ${spanText(silentMs)} ago: keep it until it has proved nothing for ${spanText(quietMs)}`,
    );
  }
  return ok(check, `${name} proved ${sums}, the last one ${spanText(silentMs)} ago: in use`);
}
