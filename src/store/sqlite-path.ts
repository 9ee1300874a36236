import type { StorageSettings } from "./settings.ts";
import { StoreRefused } from "./store-error.ts";

/** The file of the embedded engine. Throws `StoreRefused` where the settings name another engine. */
export function sqlitePath(storage: StorageSettings): string {
  if (storage.driver === "sqlite") return storage.path;
  throw new StoreRefused(`storage.driver is ${storage.driver}, and this needs the file of driver sqlite`);
}
