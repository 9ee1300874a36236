import { once } from "node:events";
import { resolve } from "node:path";
import type { Command } from "commander";
import type { Role } from "../app/engine.ts";
import type { Settings } from "../config/schema.ts";
import { CommandFailed, type Io, stopSignal } from "./io.ts";
import { choice, withConfigOption } from "./options.ts";

const roles = ["receive", "work", "both"] as const satisfies readonly Role[];

export function build(command: Command, io: Io): void {
  withConfigOption(command)
    .addOption(
      choice(
        "--role <role>",
        "with storage.driver postgres, what this process does",
        roles,
        "both",
      ),
    )
    .addHelpText(
      "after",
      `
Logs to standard output: readable lines on a terminal, JSON lines in a pipe (log.format). With PostgreSQL, any number
of processes of each role share the work; at least one must have the role work or both.

Roles:
  receive  takes webhooks and serves the control API
  work     delivers, calls the service, deletes by retention; serves health and metrics only
  both     does all of it

Signals:
  SIGTERM, SIGINT  stop accepting, finish or hand back what is in flight, and exit; a second signal exits at once
  SIGHUP           read the settings, the env file and secret files again

If at the start:
  the port is taken            exit code 1; the error names the command that finds its holder
  the settings are faulty      exit code 1; every fault with its line
  PostgreSQL refuses           exit code 1: wrong password or database, older than 14, newer data, unfinished migrate
  PostgreSQL is unavailable    /readyz is not ready, and webhooks get 503 until it returns

Examples:
  wamid-relay serve --config /etc/wamid-relay/relay.yaml
  wamid-relay serve --role receive
  kill -HUP "$PID"`,
    )
    .action(async ({ config, envFile, role }) => {
      const [{ loading }, { overriddenVariables }, { readSettings, warnOf }, { runInTurns }] =
        await Promise.all([
          import("../config/load.ts"),
          import("../config/env-file.ts"),
          import("./settings-option.ts"),
          import("../model/steps.ts"),
        ]);
      const settings = readSettings({ config, envFile }, io);
      await warnOf(settings, io);
      const reread = async () => {
        const next = await runInTurns(loading(config, io.env, envFile));
        const overridden = overriddenVariables(config, { env: io.env, envFile });
        await warnOf(next, io);
        return { settings: next, overridden };
      };
      // Loaded here, so that help and faulty settings do not wait for the whole relay.
      const [{ createRelay }, { logStream }, { logOutput }] = await Promise.all([
        import("../app/relay.ts"),
        import("../observe/logger.ts"),
        import("./pretty-log.ts"),
      ]);
      const relay = await createRelay({
        settings,
        role,
        reread,
        file: resolve(config),
        log: await logOutput(settings.log.format, logStream(1), io),
      });
      // Node would print the error with all that it carries, such as the arguments of a Redis
      // command.
      const crash = (error: unknown) => void relay.crash(error).finally(() => process.exit(1));
      process.on("uncaughtException", crash);
      // Before the relay reports that it listens: without these listeners, a signal sent on that
      // report would end the process.
      const stopped = stopSignal();
      process.on("SIGHUP", () => void relay.reload());
      try {
        await relay.listen();
      } catch (error) {
        process.off("uncaughtException", crash);
        await relay.close();
        throw new CommandFailed(listenFailure(error, settings.server));
      }
      if (!stopped.aborted) await once(stopped, "abort");
      await relay.close();
      process.off("uncaughtException", crash);
    });
}

function listenFailure(error: unknown, server: Settings["server"]): string {
  const {
    name,
    code,
    message,
    port: failed,
  } = error as { name?: string; code?: string; message: string; port?: number };
  const isControl = failed !== undefined && failed === server.control?.port;
  const { host, port } = (isControl && server.control) || server;
  const setting = isControl ? "server.control" : "server";
  if (name === "StoreUnavailable") return message;
  if (code === "EADDRINUSE")
    return `port ${port} on ${host} is taken: change ${setting}.port, or stop the process that "ss -ltnp" names`;
  if (code === "EACCES")
    return `this user may not listen on port ${port}; give ${setting}.port one above 1023`;
  if (code === "EADDRNOTAVAIL") return `${host} is no address of this machine; see ${setting}.host`;
  return `cannot listen on ${host}:${port}: ${message}`;
}
