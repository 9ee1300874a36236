import { isOlderNode, requiredNode } from "../model/node-version.js";
import type { SandboxOptions } from "./options.ts";
import type { Sandbox } from "./run-sandbox.ts";
import { SandboxRefused } from "./sandbox-refused.ts";

export type { ObservedPost } from "./events/poster.ts";
export type { Happening } from "./happenings.ts";
export type { SandboxOptions } from "./options.ts";
export type { Answer, Sandbox } from "./run-sandbox.ts";
export { SandboxRefused } from "./sandbox-refused.ts";

/**
 * Starts the messaging service on this machine: API, events, limits and errors as
 * docs/contributing/messaging-service-api.md says, and `/sandbox` as docs/contributing/sandbox.md
 * does. Resolves once it listens. Throws a ZodError for options that are none, and SandboxRefused
 * when the port or the state file cannot be had, or Node is too old.
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { node } = process.versions;
  if (isOlderNode(node))
    throw new SandboxRefused(
      `wamid-relay/sandbox needs Node.js ${requiredNode} or later, and this is Node.js ${node}`,
    );
  // Only now: an older Node cannot load undici.
  const { runSandbox } = await import("./run-sandbox.ts");
  return runSandbox(options);
}
