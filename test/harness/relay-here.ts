import { createRelay, type Relay } from "../../src/app/relay.ts";
import { loadSettings } from "../../src/config/load.ts";
import { makePlace, type PlaceOptions, type RelayPlace } from "./relay-place.ts";
import type { RelayOptions } from "./relay-process.ts";

/**
 * A whole relay in the test's own process, on a file and a port of its own: what `RelayProcess` is
 * where no process is needed to prove the point, for a tenth of the cost.
 */
export interface RelayHere extends RelayPlace {
  isRunning(): boolean;
  /** Starts it (again, on the same file and port), once it listens. */
  start(): Promise<void>;
  /** Stops it in order, as SIGTERM does. */
  stop(): Promise<void>;
  /** Reads the settings file again, as SIGHUP does. */
  reload(): Promise<void>;
  /** All log lines so far. */
  log(): Record<string, unknown>[];
}

export type AnyRelay = Omit<RelayPlace, "dispose">;

type RelayParts = Pick<Parameters<typeof createRelay>[0], "clock" | "random">;
export interface RelayHereOptions
  extends PlaceOptions,
    RelayParts,
    Pick<RelayOptions, "role" | "env"> {}

/** Makes folder and settings and starts the relay. */
export async function startRelayHere(options: RelayHereOptions = {}): Promise<RelayHere> {
  const relay = await makeRelayHere(options);
  await relay.start();
  return relay;
}

/** The same without starting it. */
export async function makeRelayHere({
  env = {},
  role,
  clock,
  random,
  ...options
}: RelayHereOptions = {}): Promise<RelayHere> {
  const lines: string[] = [];
  let running: Relay | null = null;
  async function stop(): Promise<void> {
    const stopping = running;
    running = null;
    await stopping?.close();
  }
  const place = await makePlace(options, stop);
  const read = () => loadSettings(place.settingsPath, { ...process.env, ...env });
  return {
    ...place,
    isRunning: () => running !== null,
    async start() {
      if (running !== null) throw new Error("the relay runs already");
      const log = { write: (line: string) => void lines.push(line), end: async () => {} };
      const started = await createRelay({
        settings: read(),
        file: place.settingsPath,
        log,
        reread: () => ({ settings: read(), overridden: [] }),
        ...(role === undefined ? {} : { role }),
        ...(clock === undefined ? {} : { clock }),
        ...(random === undefined ? {} : { random }),
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
    async reload() {
      if ((await running?.reload())?.result === "refused")
        throw new Error("the settings were refused; see the log");
    },
    log: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}
