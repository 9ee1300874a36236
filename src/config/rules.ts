import type { z } from "zod";
import type { DestinationSettings } from "../deliver/settings.ts";
import type { Secret } from "../model/secret.ts";
import { isPrivateHost } from "../net/addresses.ts";
import type { Finding } from "./tree.ts";

/** Adds a rule about several settings of one part. It applies once each of them is valid. */
export function withRule<Schema extends z.ZodType>(
  schema: Schema,
  rule: (part: z.infer<Schema>) => Iterable<Finding>,
): Schema {
  return schema.superRefine(
    (part, context) => {
      for (const { path, message } of rule(part))
        context.addIssue({ code: "custom", path: [...path], message });
    },
    { when: ({ issues }) => issues.length === 0 },
  );
}

/** Indices of texts that repeat an earlier one, each with the index of its first occurrence. */
export function repeated(items: readonly unknown[]): [index: number, first: number][] {
  return items.flatMap((item, index): [number, number][] => {
    const first = items.indexOf(item);
    return typeof item === "string" && first < index ? [[index, first]] : [];
  });
}

export function* repeatedSecrets(
  secrets: readonly Secret[],
  path: Finding["path"],
): Generator<Finding> {
  for (const [index, first] of repeated(secrets.map((secret) => secret.reveal()))) {
    yield { path: [...path, index], message: `is the same secret as secrets[${first}]` };
  }
}

export function* destinationFaults(to: DestinationSettings): Generator<Finding> {
  const { secret, secrets = [] } = to;
  if (secret !== undefined && secrets.length > 0) {
    yield { path: ["to", "secrets"], message: "is given beside secret; give one of the two" };
  }
  yield* repeatedSecrets(secrets, ["to", "secrets"]);
  if (!("url" in to)) return;
  if (!to.allowPrivate && isPrivateHost(to.url)) {
    const message =
      "is a loopback, private or otherwise not public address; if that is intended, set allowPrivate: true beside it";
    yield { path: ["to", "url"], message };
  }
  if (to.signature === undefined) return;
  // The others would sign other bytes, or write the same header.
  for (const key of ["secret", "secrets", "passSignature"] as const) {
    if (to[key] !== undefined && to[key] !== false) {
      yield { path: ["to", "signature"], message: `is given beside ${key}; give one of the two` };
    }
  }
}
