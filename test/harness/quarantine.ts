import { openStore } from "../../src/app/open-store.ts";
import { loadSettings } from "../../src/config/load.ts";
import { rulesFor } from "../contract/store-events.ts";
import type { RelayHere } from "./relay-here.ts";

/** Quarantines bodies that this version understands, as if an earlier one had not. */
export async function quarantine(relay: RelayHere, bodies: readonly Buffer[]): Promise<void> {
  await relay.stop();
  const { storage } = loadSettings(relay.settingsPath, process.env);
  const { store } = await openStore(storage, {
    role: "command",
    rules: rulesFor([]),
    hooks: { committed: () => {}, failed: () => {} },
  });
  const received = {
    account: "main",
    source: "main",
    origin: "webhook",
    receivedAt: Date.now(),
    headers: {},
    secret: null,
    error: "not understood in its time",
  } as const;
  for (const body of bodies) await store.quarantine({ ...received, body });
  await store.close();
  await relay.start();
}
