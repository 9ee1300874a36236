import type { Command } from "commander";
import type { Io } from "./io.ts";
import { several } from "./options.ts";

export interface VerifyOptions {
  readonly secretEnv: readonly string[];
  readonly secretFile: readonly string[];
  readonly secret: readonly string[];
  readonly request?: string;
  readonly body?: string;
  readonly header: readonly string[];
  readonly method?: string;
  readonly url?: string;
  readonly json?: boolean;
}

/** Adds `verify`: finds how a captured request was signed. Exit code 0 when a combination verifies it, else 1. */
export function addVerifyCommand(program: Command, io: Io): void {
  const command = program.command("verify");
  command
    .description("say how a captured request was signed, as the settings to paste")
    .option("--secret-env <name>", "the secret is in this environment variable; may be repeated", several, [])
    .option("--secret-file <file>", "the secret is in this file; may be repeated", several, [])
    .option("--secret <text>", "the secret itself (others on this machine can see it in the list of processes)", several, [])
    .option("--request <file>", "the captured request: request line, headers, blank line, body; - for standard input")
    .option("--body <file>", "only the captured body, byte for byte; - for standard input")
    .option("-H, --header <header>", 'a header of the request, as "name: value"; may be repeated', several, [])
    .option("--method <method>", "the request's method (default: as captured, or POST)")
    .option("--url <url>", "the URL the request was sent to, where that may be signed (default: as captured)")
    .option("--json", "print what was found as JSON")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay verify --secret-env WEBHOOK_SECRET --request captured.http
  wamid-relay verify --secret-env WEBHOOK_SECRET --body body.json -H "x-acme-signature: 5d41…"`,
    )
    .action(async (options: VerifyOptions) => {
      const { verify } = await import("./verify-run.ts");
      await verify(command, options, io);
    });
}
