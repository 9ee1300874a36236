import { faultLine, SettingsError } from "../../../src/config/fault.ts";
import { parseSettings } from "../../../src/config/load.ts";

/**
 * The faults of a settings file called `relay.yaml`, one line each; none when it loads. Anything
 * else thrown goes on.
 */
export function faultsOf(
  text: string,
  env: Readonly<Record<string, string | undefined>> = {},
): string[] {
  try {
    parseSettings(text, "relay.yaml", env);
    return [];
  } catch (error) {
    if (error instanceof SettingsError) return error.faults.map(faultLine);
    throw error;
  }
}
