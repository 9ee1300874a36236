import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace";
import { expect, onTestFinished, test, vi } from "vitest";
import { createRelay } from "../../../src/app/relay.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { Secret } from "../../../src/model/secret.ts";
import { StoreRefused } from "../../../src/store/port.ts";
import { settingsOf } from "../../harness/relay-settings.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const log = { write: () => {}, end: async () => {} };

function openFolder() {
  const folder = tempFolder();
  const storePath = join(folder, "relay.db");
  const read = (parts = {}) =>
    parseSettings(JSON.stringify(settingsOf({ port: 0, storePath }, parts)), "relay.yaml", {});
  return { storePath, read };
}

test("a refused store ends the tracer", async () => {
  const { storePath, read } = openFolder();
  writeFileSync(storePath, "This is no database. ".repeat(100));
  const ended = vi.spyOn(BatchSpanProcessor.prototype, "shutdown");
  onTestFinished(() => ended.mockRestore());
  const settings = read({ traces: { endpoint: "http://127.0.0.1:1" } });
  await expect(createRelay({ settings, log })).rejects.toThrow(StoreRefused);
  expect(ended).toHaveBeenCalledOnce();
});

test("a port that cannot be set up closes the store", async () => {
  const { read } = openFolder();
  const settings = read();
  const server = { ...settings.server, tls: { cert: "no certificate", key: new Secret("no key") } };
  await expect(createRelay({ settings: { ...settings, server }, log })).rejects.toThrow(/PEM/);

  // A file that one relay has open is refused to another one.
  const relay = await createRelay({ settings, log });
  onTestFinished(() => relay.close());
  await expect(createRelay({ settings, log })).rejects.toThrow(StoreRefused);
});
