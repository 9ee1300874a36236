import type { Command } from "commander";
import type { ControlClient } from "./control-client.ts";
import type { Io } from "./io.ts";
import { withRelayOptions } from "./options.ts";
import { print } from "./output.ts";
import { withRelay } from "./relay.ts";

export function build(command: Command, io: Io): void {
  withRelayOptions(command)
    .option("--no-open", "print the address only")
    .option("--json", "print {url, expiresAt} as JSON only")
    .addHelpText(
      "after",
      `
The address works once, within a minute. The session lasts 12 hours and has the scopes of the token: the first one of the
settings file with the scope read, if possible also pii. For a relay on a server, open an SSH tunnel to its control
port (ssh -N -L 9090:127.0.0.1:9090 relay.example), and use --relay.

Examples:
  wamid-relay console
  wamid-relay console --no-open                          on a server without a browser
  RELAY_TOKEN=… wamid-relay console --relay http://127.0.0.1:9090`,
    )
    .action(async (options) => {
      const open = async (client: ControlClient) => {
        // Refused here, a token without the scope read gives a clear error instead of an empty
        // console.
        await client.getInstance();
        return { ...(await client.createSessionCode()), base: client.url };
      };
      const { code, expiresAt, base } = await withRelay(
        command,
        options,
        io,
        "read",
        open,
        "process",
      );
      const url = `${base}/console/#code=${code}`;
      print(io, options, { url, expiresAt }, () => [url]);
      if (!options.open || options.json === true) return;
      const fault = await openBrowser(url, io.env);
      if (fault !== null) io.err(`wamid-relay: ${fault}; open the address above within a minute`);
    });
}

async function openBrowser(url: string, env: Io["env"]): Promise<string | null> {
  const { platform } = process;
  if (platform !== "darwin" && platform !== "win32" && !env["DISPLAY"] && !env["WAYLAND_DISPLAY"])
    return "no desktop to open a browser on";
  const [program, args] =
    platform === "darwin"
      ? ["open", [url]]
      : platform === "win32"
        ? ["cmd", ["/c", "start", '""', url]]
        : ["xdg-open", [url]];
  const { spawn } = await import("node:child_process");
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: "ignore",
      detached: true,
      windowsVerbatimArguments: true,
      env,
    });
    child.once("error", ({ message }) => resolve(`cannot open a browser: ${message}`));
    child.once("spawn", () => {
      child.unref();
      resolve(null);
    });
  });
}
