import { statSync } from "node:fs";
import { z } from "zod";
import { envFilePath } from "../../config/env-file.ts";
import { type Reachable, readReadiness } from "../control-client.ts";
import { CommandFailed } from "../io.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

/** `settings` of `/readyz`. */
const statusSchema = z.object({
  loadedAt: z.string(),
  refusedAt: z.string().nullable(),
  faults: z.number(),
  needRestart: z.array(z.string()),
});
type Status = z.infer<typeof statusSchema>;

interface SettingsFiles {
  readonly config: string;
  readonly envFile?: string | undefined;
  /** False: the settings file has faults now, so a restart would fail. */
  readonly isValid: boolean;
}

/** What the last reload of the relay did. No finding where no relay of this version answers, which other checks report. */
export async function checkReload(at: Reachable | null, files: SettingsFiles): Promise<Finding[]> {
  if (at === null) return [];
  try {
    const { json } = await readReadiness(at);
    const status = statusSchema.safeParse(json["settings"]);
    return status.success ? [judgeReload(status.data, files, changedFile(files, Date.parse(status.data.loadedAt)))] : [];
  } catch (error) {
    if (error instanceof CommandFailed) return [];
    throw error;
  }
}

/** `changed`: a file that was changed after the relay read it; null: none. */
export function judgeReload(
  { loadedAt, refusedAt, faults, needRestart }: Status,
  { isValid }: Pick<SettingsFiles, "isValid">,
  changed: string | null,
): Finding {
  const check = "reload";
  if (refusedAt !== null) {
    const message = `the relay refused the reload at ${refusedAt}: ${faults} ${faults === 1 ? "fault" : "faults"}; the settings of ${loadedAt} stay in effect`;
    return isValid
      ? warn(check, message, "the settings file is valid now: wamid-relay reload")
      : fail(check, message, "correct the settings file, then wamid-relay reload; a restart would fail");
  }
  if (changed !== null) return warn(check, `${changed} was changed after the relay read it at ${loadedAt}`, "wamid-relay reload");
  if (needRestart.length > 0) return warn(check, `not in effect before a restart: ${needRestart.join(", ")}`, "restart the relay");
  return ok(check, `the settings in effect were read at ${loadedAt}`);
}

function changedFile({ config, envFile }: SettingsFiles, loadedAt: number): string | null {
  const isNewer = (path: string) => (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > loadedAt;
  return [config, envFilePath(config, envFile)].find(isNewer) ?? null;
}
