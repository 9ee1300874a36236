import type { Settings } from "../../config/schema.ts";
import type { Proof } from "../../store/sqlite/read-file.ts";
import type { StoreReader } from "../../store/sqlite/reader.ts";
import { type Finding, ok, warn } from "./finding.ts";

export interface Proofs {
  readonly proofs: readonly Proof[];
  /** Events looked at, the newest ones. */
  readonly events: number;
  /** Unix ms at which the oldest of them was received; null when there are none. */
  readonly since: number | null;
}

const windowSeqs = 20_000;
/** A store of millions of events is looked at as far back as this allows. */
const longestMs = 3_000;

/** How often each secret proved an event, newest first, in short reads that do not hold up the relay's checkpoints. */
export function countProofs(reader: StoreReader): Proofs {
  const bounds = reader.events.bounds();
  if (bounds === null) return { proofs: [], events: 0, since: null };
  const startedAt = performance.now();
  const sums = new Map<string, Proof>();
  let before = bounds.newest + 1;
  while (before > bounds.oldest && performance.now() - startedAt < longestMs) {
    const after = Math.max(before - windowSeqs - 1, bounds.oldest - 1);
    for (const proof of reader.file.proofs(after, before)) {
      const key = `${proof.source}\0${proof.secret}`;
      const sum = sums.get(key);
      sums.set(key, sum === undefined ? proof : { ...sum, count: sum.count + proof.count, lastAt: Math.max(sum.lastAt, proof.lastAt) });
    }
    before = after + 1;
  }
  return { proofs: [...sums.values()], events: bounds.newest + 1 - before, since: reader.file.receivedAt(before) };
}

/** Which secret of each source still proves events, and which is safe to drop. */
export function judgeSecrets(sources: Settings["sources"], { proofs, since }: Proofs): Finding[] {
  if (since === null) return [];
  const from = `since ${new Date(since).toISOString()}`;
  return Object.entries(sources).flatMap(([source, { signature }]): Finding[] => {
    const own = proofs.filter((proof) => proof.source === source);
    const secrets = signature.secrets.map((secret, index) => {
      const fingerprint = secret.fingerprint();
      return { fingerprint, index, proof: own.find((proof) => proof.secret === fingerprint) };
    });
    const isRotating = secrets.length > 1;
    return secrets.map(({ fingerprint, index, proof }): Finding => {
      const name = `${source}: secret ${index + 1} (${fingerprint})`;
      if (proof !== undefined)
        return ok("secrets", `${name} proved ${proof.count} events ${from}, last ${new Date(proof.lastAt).toISOString()}`);
      const others = secrets.some((other) => other.proof !== undefined);
      if (!isRotating || !others) return ok("secrets", `${name} proved no event ${from}`);
      // The settings name the new one first.
      if (index === 0)
        return warn(
          "secrets",
          `${name} proved no event ${from}: the service does not sign with it yet`,
          "give it to the service; keep the other one until then",
        );
      return ok("secrets", `${name} proved no event ${from}: safe to drop from the settings`);
    });
  });
}
