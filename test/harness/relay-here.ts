import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { createRelay, type Relay } from "../../src/app/relay.ts";
import { loadSettings } from "../../src/config/load.ts";
import { freePort } from "../setup/free-port.ts";
import { askRelay, type RelayAnswer, type RelayRequest } from "./ask-relay.ts";
import type { RelayOptions } from "./relay-process.ts";
import { type SettingsParts, settingsOf } from "./relay-settings.ts";

/**
 * A whole relay in the test's own process, on a file and a port of its own: what `RelayProcess` is where no process is
 * needed to prove the point, for a tenth of the cost.
 */
export interface RelayHere {
  /** Holds `relay.yaml` and `relay.db`; removed when the test succeeds, kept and named when it fails. */
  readonly folder: string;
  readonly storePath: string;
  readonly settingsPath: string;
  readonly port: number;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** Where the source `main` takes events. */
  readonly webhookUrl: string;
  isRunning(): boolean;
  /** Starts it (again, on the same file and port), once it listens. */
  start(): Promise<void>;
  /** Stops it in order, as SIGTERM does. */
  stop(): Promise<void>;
  /** Writes the settings file anew; `reload` or a start makes it count. */
  writeSettings(parts: SettingsParts): void;
  /** Reads the settings file again, as SIGHUP does. */
  reload(): Promise<void>;
  /** All log lines so far. */
  log(): Record<string, unknown>[];
  /** Asks the relay (a path such as `/readyz` or `/v1/stats`, the token along); gives status, headers and parsed body. */
  ask(path: string, request?: RelayRequest): Promise<RelayAnswer>;
  /** Stops it and removes the folder; by itself at the test's end, but to be called where it was made in `beforeAll`. */
  dispose(keep?: boolean): Promise<void>;
}

/** A relay that can be reached, wherever it runs. */
export type AnyRelay = Pick<RelayHere, "folder" | "storePath" | "settingsPath" | "port" | "url" | "webhookUrl" | "ask" | "writeSettings">;

type CreateRelayOptions = Parameters<typeof createRelay>[0];
export type RelayHereOptions = Pick<RelayOptions, "settings" | "storePath" | "role" | "env"> & Pick<CreateRelayOptions, "clock" | "random">;

/** Makes folder and settings and starts the relay. */
export async function startRelayHere(options: RelayHereOptions = {}): Promise<RelayHere> {
  const relay = await makeRelayHere(options);
  await relay.start();
  return relay;
}

/** The same without starting it. */
export async function makeRelayHere({
  settings = {},
  env = {},
  role,
  storePath: path,
  ...parts
}: RelayHereOptions = {}): Promise<RelayHere> {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-test-"));
  const storePath = path ?? join(folder, "relay.db");
  const settingsPath = join(folder, "relay.yaml");
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const lines: string[] = [];
  let running: Relay | null = null;

  function writeSettings(parts: SettingsParts): void {
    writeFileSync(settingsPath, JSON.stringify(settingsOf({ port, storePath }, parts), null, 2));
  }

  const read = () => loadSettings(settingsPath, { ...process.env, ...env });

  async function stop(): Promise<void> {
    const stopping = running;
    running = null;
    await stopping?.close();
  }

  async function dispose(keep = false): Promise<void> {
    await stop();
    if (keep) console.error(`the relay's folder is kept for a look: ${folder}`);
    else rmSync(folder, { recursive: true, force: true });
  }

  writeSettings(settings);
  try {
    onTestFinished(({ task }) => dispose(task.result?.state === "fail"));
  } catch {
    // Called in a hook: whoever called disposes of it.
  }

  return {
    folder,
    storePath,
    settingsPath,
    port,
    url,
    webhookUrl: `${url}/webhooks/main`,
    isRunning: () => running !== null,
    async start() {
      if (running !== null) throw new Error("the relay runs already");
      const log = { write: (line: string) => void lines.push(line), end: async () => {} };
      const started = await createRelay({
        settings: read(),
        log,
        reread: () => ({ settings: read(), overridden: [] }),
        ...(role === undefined ? {} : { role }),
        ...parts,
      });
      try {
        await started.listen();
      } catch (error) {
        await started.close();
        throw error;
      }
      running = started;
    },
    stop,
    writeSettings,
    async reload() {
      if ((await running?.reload())?.result === "refused") throw new Error("the settings were refused; see the log");
    },
    log: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>),
    ask: (path, request) => askRelay(url, path, request),
    dispose,
  };
}
