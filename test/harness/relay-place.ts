import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { freePort } from "../setup/free-port.ts";
import { askRelay, type RelayAnswer, type RelayRequest } from "./ask-relay.ts";
import { type SettingsParts, settingsOf } from "./relay-settings.ts";

/** What a relay has of its own, wherever it runs. */
export interface RelayPlace {
  /**
   * Holds `relay.yaml`, `relay.db` and the output; removed when the test succeeds, kept and named
   * when it fails.
   */
  readonly folder: string;
  readonly storePath: string;
  readonly settingsPath: string;
  readonly port: number;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** Where the source `main` takes events. */
  readonly webhookUrl: string;
  /** Writes the settings file anew; a reload or a start makes it count. */
  writeSettings(parts: SettingsParts): void;
  /**
   * Asks the relay (a path such as `/readyz` or `/v1/stats`, the token along); gives status,
   * headers and parsed body.
   */
  ask(path: string, request?: RelayRequest): Promise<RelayAnswer>;
  /**
   * Ends it and removes the folder; by itself at the test's end, but to be called where it was made
   * in `beforeAll`.
   */
  dispose(keep?: boolean): Promise<void>;
}

export interface PlaceOptions {
  /** What the settings file holds beside the harness's own (see `settingsOf`). */
  readonly settings?: SettingsParts;
  /** The store's path; not given: `relay.db` in the folder. */
  readonly storePath?: string;
}

/** `end`: ends the relay that runs there. */
export async function makePlace(
  { settings = {}, ...options }: PlaceOptions,
  end: () => Promise<unknown>,
): Promise<RelayPlace> {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-test-"));
  const storePath = options.storePath ?? join(folder, "relay.db");
  const settingsPath = join(folder, "relay.yaml");
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const place: RelayPlace = {
    folder,
    storePath,
    settingsPath,
    port,
    url,
    webhookUrl: `${url}/webhooks/main`,
    writeSettings: (parts) =>
      writeFileSync(settingsPath, JSON.stringify(settingsOf({ port, storePath }, parts), null, 2)),
    ask: (path, request) => askRelay(url, path, request),
    async dispose(keep = false) {
      await end();
      if (keep) console.error(`the relay's folder is kept for a look: ${folder}`);
      else rmSync(folder, { recursive: true, force: true });
    },
  };
  place.writeSettings(settings);
  try {
    onTestFinished(({ task }) => place.dispose(task.result?.state === "fail"));
  } catch {
    // Called in a hook: whoever called disposes of it.
  }
  return place;
}
